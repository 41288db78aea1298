//! The ConfigMap by which extension servers know the clients of this server. Several servers may serve one
//! cluster, so each adds what it knows and takes away only what it trusted itself, or what has expired;
//! upstream's `pkg/controlplane/controller/clusterauthenticationtrust`.

use std::collections::{BTreeMap, BTreeSet};

use coracle_base::{Clock, Timestamp};
use coracle_runtime::informer::{Metadata, View};
use coracle_runtime::{
    Action, Change, ClusterId, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Selection,
    Written,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use serde::Deserialize;
use tokio::sync::watch;
use x509_parser::pem::Pem;

use crate::{Registration, Settings, Trust, refusal};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// The keys that hold certificates; all others hold lists of names in JSON.
const AUTHORITIES: &[&str] = &["client-ca-file", "requestheader-client-ca-file"];

pub(crate) const REGISTRATION: Registration =
    Registration { name: "cluster-authentication-trust-controller", register };

/// By what clients are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTrust {
    /// What the ConfigMap should hold.
    pub data: BTreeMap<String, String>,
    /// Certificates in PEM that were trusted and are not any more.
    pub withdrawn: Vec<String>,
}

fn register(manager: &mut Manager, settings: &Settings) {
    let Some(trust) = &settings.trust else { return };
    let published =
        manager.informer(Selection::of::<ConfigMap>().with_fields(&format!("metadata.name={NAME}")));
    let (objects, clock) = (Objects::of::<ConfigMap>(manager.client()), settings.clock.clone());
    let known = published.store().clone();
    let reconcile = Publisher { objects, clock, trust: trust.clone(), published: published.clone() };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("cluster_authentication_trust_controller")
        .watches(&published, itself)
        .watches_value(trust, move || {
            // Also where it is missing in the cluster that everybody has.
            let published = known.keys().into_iter().filter(|key| key.namespace() == NAMESPACE);
            published.chain([key(ClusterId::default())]).collect::<BTreeSet<_>>()
        });
    manager.add(controller);
}

fn key(cluster: ClusterId) -> ObjectKey {
    ObjectKey::namespaced(cluster, NAMESPACE, NAME)
}

fn itself(change: &Change<Published>) -> Option<ObjectKey> {
    (change.key.namespace() == NAMESPACE).then(|| change.key.clone())
}

/// As much of the ConfigMap as is compared.
#[derive(Clone, Debug, Deserialize)]
struct Published {
    metadata: Metadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl View for Published {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// What the ConfigMap should hold, if it holds `current`.
fn plan(current: &BTreeMap<String, String>, trust: &ClientTrust, now: Timestamp) -> BTreeMap<String, String> {
    let mut planned = trust.data.clone();
    for (key, wanted) in &mut planned {
        let Some(present) = current.get(key) else { continue };
        *wanted = if AUTHORITIES.contains(&key.as_str()) {
            combined_certificates(present, wanted, &trust.withdrawn, now)
        } else {
            combined_names(present, wanted)
        };
    }
    planned
}

/// All that are valid, those that were there first.
fn combined_certificates(present: &str, wanted: &str, withdrawn: &[String], now: Timestamp) -> String {
    let certificates = |text: &str| -> Vec<Pem> {
        let all = Pem::iter_from_buffer(text.as_bytes()).filter_map(Result::ok).collect::<Vec<_>>();
        all.into_iter().filter(|pem| pem.label == "CERTIFICATE").collect()
    };
    let withdrawn: Vec<_> = withdrawn.iter().flat_map(|text| certificates(text)).collect();
    let (present, required) = (certificates(present), certificates(wanted));
    let mut all: Vec<Pem> = Vec::new();
    for pem in present.into_iter().filter(|pem| !withdrawn.iter().any(|gone| gone.contents == pem.contents)) {
        if !all.iter().any(|known| known.contents == pem.contents) && is_valid(&pem, now) {
            all.push(pem);
        }
    }
    // Nothing is gained by the same certificates in another order.
    if required.iter().all(|pem| all.iter().any(|known| known.contents == pem.contents)) {
        return all.iter().map(text).collect();
    }
    let missing = required.into_iter().filter(|pem| !all.iter().any(|known| known.contents == pem.contents));
    let missing: Vec<Pem> = missing.collect();
    all.iter().chain(&missing).map(text).collect()
}

fn is_valid(pem: &Pem, now: Timestamp) -> bool {
    let ends = pem.parse_x509().map(|certificate| certificate.validity().not_after.timestamp());
    ends.is_ok_and(|ends| u64::try_from(ends).unwrap_or_default().saturating_mul(1000) > now.as_millis())
}

/// The certificate as everyone writes it.
fn text(pem: &Pem) -> String {
    let encoded = k8s_openapi::ByteString(pem.contents.clone());
    let encoded = serde_json::to_value(&encoded).ok();
    let encoded = encoded.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
    let lines: Vec<&str> =
        (0..encoded.len()).step_by(64).map(|at| &encoded[at..(at + 64).min(encoded.len())]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// All of them, those that were there first. What is no list is replaced.
fn combined_names(present: &str, wanted: &str) -> String {
    let (Ok(mut all), Ok(required)) =
        (serde_json::from_str::<Vec<String>>(present), serde_json::from_str::<Vec<String>>(wanted))
    else {
        return wanted.to_owned();
    };
    for name in required {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    serde_json::to_string(&all).unwrap_or_else(|_| wanted.to_owned())
}

struct Publisher {
    objects: Objects,
    clock: Clock,
    trust: watch::Receiver<Trust>,
    published: Informer<Published>,
}

impl Reconcile for Publisher {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let trust = self.trust.borrow().clients.clone();
        let known = self.published.store().get(key);
        let Some(known) = known else {
            let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
            let config_map = ConfigMap { metadata, data: Some(trust.data), ..ConfigMap::default() };
            return match self.objects.create::<Written>(key, &config_map).await {
                // If somebody else made it, its arrival brings the key back.
                Err(error) if !refusal::exists_already(&error) && !refusal::namespace_is_going(&error) => {
                    Err(error)
                }
                _ => Ok(Action::AwaitChange),
            };
        };
        let now = self.clock.now();
        if plan(&known.data, &trust, now) != known.data {
            // If it is gone meanwhile, that brings the key back.
            let Some(mut current) = self.objects.get::<ConfigMap>(key).await? else {
                return Ok(Action::AwaitChange);
            };
            current.data = Some(plan(&current.data.unwrap_or_default(), &trust, now));
            self.objects.replace::<Written>(key, &current).await?;
        }
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn certificate(year: i32) -> String {
        let mut params = CertificateParams::default();
        params.not_after = date_time_ymd(year, 1, 1);
        let pem = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        text(&Pem::iter_from_buffer(pem.as_bytes()).next().unwrap().unwrap())
    }

    fn trust(authorities: &[&str], withdrawn: &[&str]) -> ClientTrust {
        let names = r#"["front-proxy-client"]"#;
        let data =
            [("client-ca-file", authorities.concat()), ("requestheader-allowed-names", names.to_owned())];
        ClientTrust {
            data: data.map(|(key, value)| (key.to_owned(), value)).into(),
            withdrawn: withdrawn.iter().map(ToString::to_string).collect(),
        }
    }

    fn authorities(current: &[&str], trust: &ClientTrust) -> String {
        let current = BTreeMap::from([("client-ca-file".to_owned(), current.concat())]);
        plan(&current, trust, NOW).remove("client-ca-file").unwrap()
    }

    #[test]
    fn what_is_there_already_is_left_alone() {
        let (one, two) = (certificate(2040), certificate(2040));
        let wanted = trust(&[&one, &two], &[]);
        assert_eq!(plan(&wanted.data, &wanted, NOW), wanted.data);
        assert_eq!(authorities(&[&two, &one], &wanted), [two, one].concat());
    }

    #[test]
    fn what_others_trust_stays_until_it_expires() {
        let (ours, theirs, expired) = (certificate(2040), certificate(2040), certificate(2020));
        assert_eq!(authorities(&[&theirs, &expired], &trust(&[&ours], &[])), [theirs, ours].concat());
    }

    #[test]
    fn what_was_ours_goes() {
        let (new, old) = (certificate(2040), certificate(2040));
        assert_eq!(authorities(&[&old, &new], &trust(&[&new], &[&old])), new);
    }

    #[test]
    fn names_add_up_and_nonsense_is_replaced() {
        let wanted = r#"["a","b"]"#;
        assert_eq!(combined_names(r#"["b","c"]"#, wanted), r#"["b","c","a"]"#);
        assert_eq!(combined_names("nonsense", wanted), wanted);
        let ours = certificate(2040);
        assert_eq!(authorities(&["nonsense"], &trust(&[&ours], &[])), ours);
    }
}
