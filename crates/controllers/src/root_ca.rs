//! Publishes a ConfigMap in every namespace with the certificate authorities of the API server. Changes by others are
//! reverted.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use coracle_base::metrics::{Buckets, Counters, Histograms};
use coracle_base::{Clock, Metrics};
use coracle_runtime::informer::{Metadata, MetadataOnly, View};
use coracle_runtime::{
    Action, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Selection, Written,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use serde::Deserialize;
use tokio::sync::watch;

use crate::{Registration, Settings, Trust, active_namespaces, api_error};

/// Name and only key of the ConfigMap; pods mount them by these names.
const NAME: &str = "kube-root-ca.crt";
const KEY: &str = "ca.crt";

/// Annotation that describes the ConfigMap, with Kubernetes' text (`Description` in
/// `pkg/controller/certificates/rootcacertpublisher`).
const DESCRIPTION_ANNOTATION: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using \
    internal endpoints such as the internal service IP or kubernetes.default.svc. \
    No other usage is guaranteed across distributions of Kubernetes clusters.";

pub(crate) const REGISTRATION: Registration =
    Registration { name: "root-ca-certificate-publisher-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let Some(trust) = &settings.trust else { return };
    let namespaces = active_namespaces::informer(manager);
    let published =
        manager.informer(Selection::of::<ConfigMap>().with_fields(&format!("metadata.name={NAME}")));
    let (objects, trust) = (Objects::of::<ConfigMap>(manager.client()), trust.clone());
    let (of_namespaces, trust_changes) = (namespaces.clone(), trust.clone());
    let reconcile = RootCa {
        objects,
        trust,
        namespaces: namespaces.clone(),
        published: published.clone(),
        clock: settings.clock.clone(),
        syncs: Syncs::new(manager.metrics()),
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("root_ca_cert_publisher")
        .watches(&namespaces, active_namespaces::itself)
        .watches(&published, active_namespaces::namespace_of)
        .watches_value(&trust_changes, move || of_namespaces.store().keys());
    manager.add(controller);
}

/// View of the ConfigMap with a fingerprint of its contents: the certificates are the same in every namespace, and
/// caching thousands of copies would waste memory.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Whole")]
struct Published {
    metadata: Metadata,
    fingerprint: u64,
    described: bool,
}

/// The wire format.
#[derive(Deserialize)]
struct Whole {
    metadata: WholeMetadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct WholeMetadata {
    #[serde(flatten)]
    metadata: Metadata,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl From<Whole> for Published {
    fn from(whole: Whole) -> Self {
        let described = is_described(&whole.metadata.annotations);
        Self { metadata: whole.metadata.metadata, fingerprint: fingerprint(&whole.data), described }
    }
}

impl View for Published {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// A hash without protection against collisions: an attacker could only keep wrong contents in their own namespace.
fn fingerprint(data: &BTreeMap<String, String>) -> u64 {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    hasher.finish()
}

fn is_described(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(DESCRIPTION_ANNOTATION).is_some_and(|text| !text.is_empty())
}

/// Next step for a namespace.
#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    Create,
    Repair,
}

/// Decides on the next step, given the certificates to publish.
fn plan(active: bool, published: Option<&Published>, data: &BTreeMap<String, String>) -> Plan {
    match published {
        None if active => Plan::Create,
        // Also in terminating namespaces, as in Kubernetes: pods that still run read it.
        Some(published) if !published.described || published.fingerprint != fingerprint(data) => Plan::Repair,
        _ => Plan::Nothing,
    }
}

/// The ConfigMap with the required contents, and everything else from `current`.
fn corrected(mut current: ConfigMap, data: &BTreeMap<String, String>) -> ConfigMap {
    current.data = Some(data.clone());
    let annotations = current.metadata.annotations.get_or_insert_default();
    annotations.insert(DESCRIPTION_ANNOTATION.to_owned(), DESCRIPTION.to_owned());
    current
}

struct RootCa {
    objects: Objects,
    trust: watch::Receiver<Trust>,
    namespaces: Informer<MetadataOnly>,
    published: Informer<Published>,
    clock: Clock,
    syncs: Syncs,
}

/// Contents of the ConfigMap.
type Data = BTreeMap<String, String>;

impl RootCa {
    async fn create(&self, key: &ObjectKey, data: &Data) -> Result<(), kube::Error> {
        let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
        let config_map = corrected(ConfigMap { metadata, ..ConfigMap::default() }, data);
        match self.objects.create::<Written>(key, &config_map).await {
            // If another server created it, the informer's event enqueues the key again.
            Err(error)
                if !api_error::already_exists(&error)
                    && !api_error::namespace_is_gone_or_terminating(&error) =>
            {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Reads the whole object first, which is not cached; its resource version prevents overwriting concurrent
    /// changes.
    async fn repair(&self, key: &ObjectKey, data: &Data) -> Result<(), kube::Error> {
        // If it has been deleted, the informer's event enqueues the key again.
        let Some(current) = self.objects.get(key).await? else { return Ok(()) };
        self.objects.replace::<Written>(key, &corrected(current, data)).await?;
        Ok(())
    }
}

/// Metrics of syncs by HTTP status code, under Kubernetes' names.
struct Syncs {
    total: Counters<1>,
    took: Histograms<1>,
}

impl Syncs {
    fn new(metrics: &Metrics) -> Self {
        let (help, buckets) = ("Duration of namespace syncs.", Buckets::exponential(0.001, 2.0, 15));
        Self {
            total: metrics.counters("root_ca_cert_publisher_sync_total", "Namespace syncs.", ["code"]),
            took: metrics.histograms("root_ca_cert_publisher_sync_duration_seconds", help, buckets, ["code"]),
        }
    }

    fn count(&self, synced: &kube::Result<()>, took: Duration) {
        let code = match synced {
            Ok(()) => 200,
            Err(kube::Error::Api(status)) if status.code != 0 => status.code,
            Err(_) => 500,
        };
        let code = code.to_string();
        self.total.with([&code]).inc();
        self.took.with([&code]).observe_duration(took);
    }
}

impl Reconcile for RootCa {
    type Error = kube::Error;

    async fn reconcile(&self, namespace: &ObjectKey) -> Result<Action, kube::Error> {
        let began = self.clock.uptime();
        let synced = self.sync(namespace).await;
        self.syncs.count(&synced, self.clock.uptime().saturating_sub(began));
        synced.map(|()| Action::AwaitChange)
    }
}

impl RootCa {
    async fn sync(&self, namespace: &ObjectKey) -> kube::Result<()> {
        let key = ObjectKey::namespaced(namespace.cluster().clone(), namespace.name(), NAME);
        let published = self.published.store().get(&key);
        let active = active_namespaces::is_active(&self.namespaces, namespace);
        let data = Data::from([(KEY.to_owned(), self.trust.borrow().root_ca.clone())]);
        match plan(active, published.as_deref(), &data) {
            Plan::Nothing => Ok(()),
            Plan::Create => self.create(&key, &data).await,
            Plan::Repair => self.repair(&key, &data).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn data() -> BTreeMap<String, String> {
        BTreeMap::from([(KEY.to_owned(), "PEM".to_owned())])
    }

    fn view(config_map: &ConfigMap) -> Published {
        serde_json::from_value(serde_json::to_value(config_map).unwrap()).unwrap()
    }

    #[test]
    fn missing_config_map_is_created_in_active_namespaces() {
        assert_eq!(plan(true, None, &data()), Plan::Create);
        assert_eq!(plan(false, None, &data()), Plan::Nothing);
    }

    #[test]
    fn correct_config_map_is_left_alone() {
        let published = view(&corrected(ConfigMap::default(), &data()));
        assert_eq!(plan(true, Some(&published), &data()), Plan::Nothing);
    }

    #[test]
    fn foreign_changes_are_reverted() {
        let right = || corrected(ConfigMap::default(), &data());
        let wrong: [fn(&mut ConfigMap); 5] = [
            |map| map.data = None,
            |map| drop(map.data.as_mut().unwrap().insert(KEY.to_owned(), "other".to_owned())),
            |map| drop(map.data.as_mut().unwrap().insert("more".to_owned(), String::new())),
            |map| map.metadata.annotations = None,
            |map| {
                drop(
                    map.metadata
                        .annotations
                        .as_mut()
                        .unwrap()
                        .insert(DESCRIPTION_ANNOTATION.to_owned(), String::new()),
                )
            },
        ];
        for spoil in wrong {
            let mut map = right();
            spoil(&mut map);
            assert_eq!(plan(true, Some(&view(&map)), &data()), Plan::Repair);
            assert_eq!(plan(true, Some(&view(&corrected(map, &data()))), &data()), Plan::Nothing);
        }
    }

    #[test]
    fn changed_description_is_left_alone() {
        let mut map = corrected(ConfigMap::default(), &data());
        let annotations = map.metadata.annotations.as_mut().unwrap();
        annotations.insert(DESCRIPTION_ANNOTATION.to_owned(), "mine".to_owned());
        assert_eq!(plan(true, Some(&view(&map)), &data()), Plan::Nothing);
    }

    #[test]
    fn repair_keeps_other_fields() {
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": NAME, "labels": {"a": "b"}, "resourceVersion": "7"}, "data": {"x": "y"}
        }))
        .unwrap();
        let corrected = corrected(map, &data());
        assert_eq!(corrected.metadata.labels.unwrap()["a"], "b");
        assert_eq!(corrected.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(corrected.data, Some(data()));
    }

    #[test]
    fn view_holds_the_metadata() {
        let published: Published = serde_json::from_value(json!({
            "metadata": {"name": NAME, "namespace": "a", "resourceVersion": "7", "creationTimestamp": null}
        }))
        .unwrap();
        assert_eq!((&*published.metadata.name, &*published.metadata.resource_version), (NAME, "7"));
        assert!(!published.described);
    }
}
