//! Protects VolumeAttributesClasses that a claim or a volume names.
//!
//! Unlike in Kubernetes, the server is queried before the finalizer is removed, because the informers may lack a
//! claim that names the class. A claim created at the same moment may still find its class gone.

use coracle_runtime::informer::{PartialObject, View};
use coracle_runtime::{
    Action, Change, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Selection,
};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;

use kube::api::ListParams;

use super::{Plan, apply, needs_finalizer_change, plan};
use crate::view::{PersistentVolume, PersistentVolumeClaim, claims, volumes};
use crate::{Registration, Settings};

/// Finalizer of this controller.
const FINALIZER: &str = "kubernetes.io/vac-protection";

/// Page size of lists of claims and volumes.
const PAGE: u32 = 500;

/// Index of claims and volumes by class.
const BY_CLASS: &str = "volumeAttributesClass";

pub(crate) const REGISTRATION: Registration =
    Registration { name: "volumeattributesclass-protection-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let classes: Informer<PartialObject> =
        manager.informer(Selection::of::<VolumeAttributesClass>().metadata_only());
    let (claims, volumes) = (claims(manager), volumes(manager));
    claims.store().add_index(BY_CLASS, classes_of_claim);
    volumes.store().add_index(BY_CLASS, classes_of_volume);
    let reconcile = Protection {
        objects: Objects::of::<VolumeAttributesClass>(manager.client()),
        claim_objects: Objects::of::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(manager.client()),
        volume_objects: Objects::of::<k8s_openapi::api::core::v1::PersistentVolume>(manager.client()),
        classes: classes.clone(),
        claims: claims.clone(),
        volumes: volumes.clone(),
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("vacprotection")
        .watches(&classes, |change| needs_finalizer_change(change, FINALIZER))
        .watches(&claims, |change| released(change, classes_of_claim))
        .watches(&volumes, |change| released(change, classes_of_volume));
    manager.add(controller);
}

/// Current, desired and target class of a claim.
fn classes_of_claim(claim: &PersistentVolumeClaim) -> Vec<String> {
    let status = &claim.status;
    let mut classes = named([
        &claim.spec.volume_attributes_class_name,
        &status.current_volume_attributes_class_name,
        &status.modify_volume_status.target_volume_attributes_class_name,
    ]);
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Class of a volume; at most one.
fn classes_of_volume(volume: &PersistentVolume) -> Vec<String> {
    named([&volume.spec.volume_attributes_class_name])
}

fn named<const COUNT: usize>(names: [&Option<Box<str>>; COUNT]) -> Vec<String> {
    let names = names.into_iter().flatten().filter(|name| !name.is_empty());
    names.map(|name| name.to_string()).collect()
}

/// Classes that were named before this change, and no longer are.
fn released<V: View>(change: &Change<V>, classes: fn(&V) -> Vec<String>) -> Vec<ObjectKey> {
    let before = change.old.as_deref().map(classes).unwrap_or_default();
    let still = change.new.as_deref().map(classes).unwrap_or_default();
    let key = |class: &String| ObjectKey::cluster_wide(change.key.cluster().clone(), class.as_str());
    before.iter().filter(|class| !still.contains(class)).map(key).collect()
}

struct Protection {
    objects: Objects,
    claim_objects: Objects,
    volume_objects: Objects,
    classes: Informer<PartialObject>,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
}

impl Protection {
    fn is_used(&self, class: &ObjectKey) -> bool {
        let (cluster, name) = (class.cluster(), class.name());
        !self.claims.store().by_index(BY_CLASS, cluster, name).is_empty()
            || !self.volumes.store().by_index(BY_CLASS, cluster, name).is_empty()
    }

    /// True if a claim or a volume on the server names the class.
    async fn is_used_on_server(&self, class: &ObjectKey) -> Result<bool, kube::Error> {
        let (all, params) =
            (ObjectKey::cluster_wide(class.cluster().clone(), ""), ListParams::default().limit(PAGE));
        let mut is_used = false;
        let names = |classes: Vec<String>| classes.iter().any(|name| name == class.name());
        let look =
            |page: Vec<PersistentVolumeClaim>| is_used |= page.iter().any(|one| names(classes_of_claim(one)));
        self.claim_objects.list_pages(&all, &params, look).await?;
        let look =
            |page: Vec<PersistentVolume>| is_used |= page.iter().any(|one| names(classes_of_volume(one)));
        self.volume_objects.list_pages(&all, &params, look).await?;
        Ok(is_used)
    }
}

impl Reconcile for Protection {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        if let Some(class) = self.classes.store().get(key) {
            let mut planned = plan(&class.metadata, FINALIZER, || self.is_used(key));
            if planned == Plan::RemoveFinalizer && self.is_used_on_server(key).await? {
                planned = Plan::Nothing;
            }
            apply(planned, &self.objects, key, &class.metadata, FINALIZER).await?;
        }
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use coracle_runtime::ClusterId;
    use serde_json::json;

    use super::*;

    #[test]
    fn classes_are_enqueued_when_no_longer_named() {
        let claim = |wanted: &str, current: &str| -> Option<Arc<PersistentVolumeClaim>> {
            let spec = json!({"volumeAttributesClassName": wanted});
            let status = json!({"currentVolumeAttributesClassName": current});
            Some(Arc::new(serde_json::from_value(json!({"spec": spec, "status": status})).unwrap()))
        };
        let names = |old, new| {
            let key = ObjectKey::namespaced(ClusterId::default(), "n", "c");
            let keys = released(&Change { key, old, new }, classes_of_claim);
            keys.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(names(None, claim("gold", "")).is_empty());
        assert!(names(claim("silver", "silver"), claim("gold", "silver")).is_empty());
        assert_eq!(names(claim("gold", "silver"), claim("gold", "gold")), ["silver"]);
        assert_eq!(names(claim("gold", "silver"), None), ["gold", "silver"]);
    }

    #[test]
    fn all_classes_of_claims_and_volumes_are_indexed() {
        let claim = serde_json::from_value(json!({
            "spec": {"volumeAttributesClassName": "silver", "resources": {}},
            "status": {
                "currentVolumeAttributesClassName": "silver",
                "modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold", "status": "InProgress"},
            },
        }))
        .unwrap();
        assert_eq!(classes_of_claim(&claim), ["gold", "silver"]);
        let plain = serde_json::from_value(json!({"spec": {"volumeAttributesClassName": ""}})).unwrap();
        assert!(classes_of_claim(&plain).is_empty());
        let volume = serde_json::from_value(json!({"spec": {"volumeAttributesClassName": "gold"}})).unwrap();
        assert_eq!(classes_of_volume(&volume), ["gold"]);
    }
}
