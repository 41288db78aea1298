//! Publishes the ConfigMap by which extension API servers authenticate this server's clients. Several servers may
//! serve one cluster, so each adds its own entries and removes only entries that it published itself or that have
//! expired. Kubernetes' `pkg/controlplane/controller/clusterauthenticationtrust`.

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

use crate::{Registration, Settings, Trust, api_error};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// Keys that hold certificates; all others hold JSON lists of names.
const AUTHORITIES: &[&str] = &["client-ca-file", "requestheader-client-ca-file"];

pub(crate) const REGISTRATION: Registration =
    Registration { name: "cluster-authentication-trust-controller", register };

/// The certificate authorities and names by which clients are authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTrust {
    /// Required contents of the ConfigMap.
    pub data: BTreeMap<String, String>,
    /// Certificates in PEM that were trusted before and no longer are.
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
            // Always including the default cluster, where the ConfigMap may be missing.
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

/// View of the ConfigMap.
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

/// The contents that the ConfigMap should have, given its current contents.
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

/// All valid certificates, existing ones first.
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
    // The order of the same certificates does not matter.
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

/// Encodes the certificate as usual in PEM.
fn text(pem: &Pem) -> String {
    let encoded = k8s_openapi::ByteString(pem.contents.clone());
    let encoded = serde_json::to_value(&encoded).ok();
    let encoded = encoded.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
    let lines: Vec<&str> =
        (0..encoded.len()).step_by(64).map(|at| &encoded[at..(at + 64).min(encoded.len())]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// All names, existing ones first. An invalid list is replaced.
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
                // If another server created it, the informer's event enqueues the key again.
                Err(error)
                    if !api_error::already_exists(&error)
                        && !api_error::namespace_is_gone_or_terminating(&error) =>
                {
                    Err(error)
                }
                _ => Ok(Action::AwaitChange),
            };
        };
        let now = self.clock.now();
        if plan(&known.data, &trust, now) != known.data {
            // If it has been deleted, the informer's event enqueues the key again.
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
    fn existing_entries_are_left_alone() {
        let (one, two) = (certificate(2040), certificate(2040));
        let wanted = trust(&[&one, &two], &[]);
        assert_eq!(plan(&wanted.data, &wanted, NOW), wanted.data);
        assert_eq!(authorities(&[&two, &one], &wanted), [two, one].concat());
    }

    #[test]
    fn certificates_of_other_servers_stay_until_expiry() {
        let (ours, theirs, expired) = (certificate(2040), certificate(2040), certificate(2020));
        assert_eq!(authorities(&[&theirs, &expired], &trust(&[&ours], &[])), [theirs, ours].concat());
    }

    #[test]
    fn withdrawn_certificates_are_removed() {
        let (new, old) = (certificate(2040), certificate(2040));
        assert_eq!(authorities(&[&old, &new], &trust(&[&new], &[&old])), new);
    }

    #[test]
    fn names_are_merged_and_invalid_lists_replaced() {
        let wanted = r#"["a","b"]"#;
        assert_eq!(combined_names(r#"["b","c"]"#, wanted), r#"["b","c","a"]"#);
        assert_eq!(combined_names("nonsense", wanted), wanted);
        let ours = certificate(2040);
        assert_eq!(authorities(&["nonsense"], &trust(&[&ours], &[])), ours);
    }
}
