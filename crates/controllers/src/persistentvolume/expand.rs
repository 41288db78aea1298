//! Expands claims that request more storage than they have.
//!
//! A directory on a node has no size, so Coracle's own volumes are expanded by changing their capacity. All others
//! are left to external controllers, and an event reports that.

use coracle_runtime::{
    Action, Change, Controller, EventType, Informer, Manager, ObjectKey, Objects, ReadYourWrites, Reconcile,
    Recorder, Reference, StaleCache, Written,
};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::annotations::{PROVISIONED_BY, STORAGE, phase};
use super::matching::storage;
use super::provision::PROVISIONER;
use crate::view::{PersistentVolume, PersistentVolumeClaim, claims, volumes};
use crate::{Registration, Settings};

/// Component of the events.
const COMPONENT: &str = "volume_expand";

pub(crate) const REGISTRATION: Registration =
    Registration { name: "persistentvolume-expander-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let (claims, volumes) = (claims(manager), volumes(manager));
    let reconcile = Expander {
        claim_objects: Objects::of::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(manager.client()),
        volume_objects: Objects::of::<k8s_openapi::api::core::v1::PersistentVolume>(manager.client()),
        claims: claims.clone(),
        volumes: volumes.clone(),
        recorder: manager.recorder(COMPONENT),
        claim_writes: ReadYourWrites::default(),
        volume_writes: ReadYourWrites::default(),
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("volume_expand")
        .watches(&claims, |change: &Change<PersistentVolumeClaim>| {
            let new = change.new.as_ref()?;
            needs_expansion(new).then(|| change.key.clone())
        })
        .watches(&volumes, |change| {
            let volume = change.new.as_ref().filter(|volume| is_ours(volume))?;
            let bound = volume.spec.claim_ref.as_ref()?;
            Some(ObjectKey::namespaced(change.key.cluster().clone(), &*bound.namespace, &*bound.name))
        });
    manager.add(controller);
}

/// True if a claim is bound and has less storage than it requests.
fn needs_expansion(claim: &PersistentVolumeClaim) -> bool {
    let is_bound = &*claim.status.phase == phase::BOUND && !claim.spec.volume_name.is_empty();
    is_bound && storage(&claim.spec.resources.requests) > storage(&claim.status.capacity)
}

fn is_ours(volume: &PersistentVolume) -> bool {
    volume.metadata.annotations.get(PROVISIONED_BY) == Some(PROVISIONER)
}

/// Next step for a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    /// Set the volume's capacity, unless it is `None` because it is set; then set the claim's.
    Grow(Option<Value>),
    /// Wait for an external controller; whether that is expected.
    Await {
        is_expected: bool,
    },
}

fn plan(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Plan {
    let bound = volume.spec.claim_ref.as_ref();
    if !needs_expansion(claim) || bound.is_none_or(|bound| *bound.uid != *claim.metadata.uid()) {
        return Plan::Nothing;
    }
    if !is_ours(volume) {
        return Plan::Await { is_expected: volume.spec.csi.is_some() };
    }
    let wanted = &claim.spec.resources.requests;
    let is_smaller = storage(&volume.spec.capacity) < storage(wanted);
    let metadata = json!({"resourceVersion": volume.metadata.resource_version()});
    let patch = json!({"metadata": metadata, "spec": {"capacity": {STORAGE: wanted.get(STORAGE)}}});
    Plan::Grow(is_smaller.then_some(patch))
}

struct Expander {
    claim_objects: Objects,
    volume_objects: Objects,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    recorder: Recorder,
    claim_writes: ReadYourWrites,
    volume_writes: ReadYourWrites,
}

/// Error of a reconcile.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
    #[error("request to the server failed")]
    Request(#[from] kube::Error),
}

impl Reconcile for Expander {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Error> {
        self.claim_writes.seen(key, &self.claims).await?;
        self.volume_writes.seen(key, &self.volumes).await?;
        let Some(claim) = self.claims.store().get(key) else { return Ok(Action::AwaitChange) };
        let volume_key = ObjectKey::cluster_wide(key.cluster().clone(), &*claim.spec.volume_name);
        let Some(volume) = self.volumes.store().get(&volume_key) else { return Ok(Action::AwaitChange) };
        match plan(&claim, &volume) {
            Plan::Nothing => {}
            Plan::Await { is_expected } => {
                let kind = if is_expected { EventType::Normal } else { EventType::Warning };
                let about = Reference::to("v1", "PersistentVolumeClaim", &claim.metadata);
                let message = "waiting for an external controller to expand this PVC";
                self.recorder.event(key.cluster(), about, kind, "ExternalExpanding", message);
            }
            Plan::Grow(patch) => {
                if let Some(patch) = patch {
                    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
                    let written: Written = self.volume_objects.patch(&volume_key, &params, &patch).await?;
                    self.volume_writes.note(key, &written.metadata.resource_version);
                }
                self.grow_claim(key, &claim).await?;
            }
        }
        Ok(Action::AwaitChange)
    }
}

impl Expander {
    async fn grow_claim(&self, key: &ObjectKey, claim: &PersistentVolumeClaim) -> kube::Result<()> {
        let metadata = json!({"resourceVersion": claim.metadata.resource_version()});
        let capacity = json!({STORAGE: claim.spec.resources.requests.get(STORAGE)});
        let patch = Patch::Merge(json!({"metadata": metadata, "status": {"capacity": capacity}}));
        let params = PatchParams::default();
        let written: Written = self.claim_objects.patch_subresource(key, "status", &params, &patch).await?;
        self.claim_writes.note(key, &written.metadata.resource_version);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_volumes_are_expanded_and_others_left_to_external_controllers() {
        let claim = |wanted: &str, has: &str| -> PersistentVolumeClaim {
            let spec = json!({"volumeName": "v", "resources": {"requests": {"storage": wanted}}});
            let status = json!({"phase": "Bound", "capacity": {"storage": has}});
            serde_json::from_value(json!({"metadata": {"uid": "u"}, "spec": spec, "status": status})).unwrap()
        };
        let volume = |by: &str, size: &str, uid: &str| -> PersistentVolume {
            let csi = (by == "csi").then(|| json!({"driver": "d"}));
            let metadata =
                json!({"resourceVersion": "3", "annotations": {"pv.kubernetes.io/provisioned-by": by}});
            let spec = json!({"capacity": {"storage": size}, "claimRef": {"uid": uid}, "csi": csi});
            serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
        };
        let grown = json!({"metadata": {"resourceVersion": "3"}, "spec": {"capacity": {"storage": "2Gi"}}});
        for (claim, volume, expected) in [
            (claim("1Gi", "1Gi"), volume(PROVISIONER, "1Gi", "u"), Plan::Nothing),
            (claim("2Gi", "1Gi"), volume(PROVISIONER, "1Gi", "u"), Plan::Grow(Some(grown))),
            (claim("2Gi", "1Gi"), volume(PROVISIONER, "2Gi", "u"), Plan::Grow(None)),
            (claim("2Gi", "1Gi"), volume(PROVISIONER, "1Gi", "other"), Plan::Nothing),
            (claim("2Gi", "1Gi"), volume("csi", "1Gi", "u"), Plan::Await { is_expected: true }),
            (claim("2Gi", "1Gi"), volume("", "1Gi", "u"), Plan::Await { is_expected: false }),
        ] {
            assert_eq!(plan(&claim, &volume), expected);
        }
    }
}
