//! Binds PersistentVolumeClaims to PersistentVolumes, and provisions volumes.
//!
//! A binding consists of two references: first the volume references the claim, then the claim the volume. Each step
//! is planned from the state of both ([`claim`], [`volume`]), so it can be interrupted and resumed at any point.
//! Claims and volumes share one queue with one worker, and are distinguished by their namespace: two claims are never
//! bound to the same volume concurrently.

mod annotations;
mod bind;
mod claim;
pub(crate) mod expand;
mod matching;
mod metrics;
mod patches;
mod provision;
mod release;
#[cfg(test)]
mod tests;
mod triggers;
mod volume;

use std::sync::Arc;

use coracle_runtime::{
    Action, ClusterId, Controller, EventType, Informer, Manager, ObjectKey, Objects, ReadYourWrites,
    Reconcile, Recorder, Reference, StaleCache,
};
use kube::api::{Patch, PatchParams};
use serde_json::Value;

use crate::view::{
    Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, claims, nodes, pods, storage_classes,
    volumes,
};
use crate::{Registration, Settings};
use claim::PlannedEvent;
use metrics::VolumeMetrics;

pub(crate) const REGISTRATION: Registration =
    Registration { name: "persistentvolume-binder-controller", register };

/// Component of the events.
const COMPONENT: &str = "persistentvolume-controller";

fn register(manager: &mut Manager, settings: &Settings) {
    let counted = Arc::new(VolumeMetrics::new(manager.metrics(), settings.clock.clone()));
    let binder = Binder {
        claim_objects: Objects::of::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(manager.client()),
        volume_objects: Objects::of::<k8s_openapi::api::core::v1::PersistentVolume>(manager.client()),
        claims: claims(manager),
        volumes: volumes(manager),
        classes: storage_classes(manager),
        pods: pods(manager),
        nodes: nodes(manager),
        recorder: manager.recorder(COMPONENT),
        claim_writes: ReadYourWrites::default(),
        volume_writes: ReadYourWrites::default(),
        metrics: Arc::clone(&counted),
    };
    let (claims, volumes, classes) = (binder.claims.clone(), binder.volumes.clone(), binder.classes.clone());
    let (pods, nodes) = (binder.pods.clone(), binder.nodes.clone());
    triggers::add_indexes(&claims, &volumes, &pods);
    metrics::declare_counts(manager.metrics(), &volumes, &claims);
    let (claims_counted, volumes_counted) = (Arc::clone(&counted), counted);
    let (of_claim, of_volume, of_class, of_pod) =
        (volumes.clone(), claims.clone(), claims.clone(), claims.clone());
    let controller = Controller::new(REGISTRATION.name, binder)
        .queue_name("claims")
        .watches(&claims, move |change| {
            if change.new.is_none() {
                claims_counted.forget(&change.key);
            }
            triggers::by_claim(change, of_claim.store())
        })
        .watches(&volumes, move |change| {
            if change.new.is_none() {
                volumes_counted.done(&change.key);
            }
            triggers::by_volume(change, of_volume.store())
        })
        .watches(&classes, move |change| triggers::by_class(change, of_class.store()))
        .watches(&pods, move |change| triggers::by_pod(change, of_pod.store()))
        // Only cached: a claim that waits for a node is retried.
        .watches(&nodes, |_| None);
    manager.add(controller);
}

struct Binder {
    claim_objects: Objects,
    volume_objects: Objects,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    classes: Informer<StorageClass>,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    recorder: Recorder,
    claim_writes: ReadYourWrites,
    volume_writes: ReadYourWrites,
    metrics: Arc<VolumeMetrics>,
}

/// Error of a reconcile.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
    #[error("request to the server failed")]
    Request(#[from] kube::Error),
    #[error("{0}")]
    Failed(String),
}

impl Reconcile for Binder {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Error> {
        // Writes for one claim matter to all others.
        let all = all_objects(key.cluster());
        self.claim_writes.seen(&all, &self.claims).await?;
        self.volume_writes.seen(&all, &self.volumes).await?;
        if key.namespace().is_empty() {
            if let Some(volume) = self.volumes.store().get(key) {
                self.sync_volume(key, volume).await?;
            }
        } else if let Some(claim) = self.claims.store().get(key) {
            self.sync_claim(key, claim).await?;
        }
        Ok(Action::AwaitChange)
    }
}

/// Key that stands for all claims and volumes of a cluster.
fn all_objects(cluster: &ClusterId) -> ObjectKey {
    ObjectKey::cluster_wide(cluster.clone(), "")
}

impl Binder {
    async fn write_volume_phase(
        &self,
        key: &ObjectKey,
        volume: &PersistentVolume,
        phase: &str,
        message: &str,
    ) -> Result<(), Error> {
        if let Some(patch) = patches::volume_phase(volume, phase, message) {
            self.patch_volume(key, "status", patch).await?;
        }
        Ok(())
    }

    async fn write_claim_status(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
        phase: &str,
        volume: Option<&PersistentVolume>,
    ) -> Result<(), Error> {
        if let Some(patch) = patches::claim_status(claim, phase, volume) {
            self.patch_claim(key, "status", patch).await?;
        }
        Ok(())
    }

    async fn patch_claim(
        &self,
        key: &ObjectKey,
        subresource: &str,
        patch: Value,
    ) -> kube::Result<Arc<PersistentVolumeClaim>> {
        let claim: PersistentVolumeClaim = patched(&self.claim_objects, key, subresource, patch).await?;
        self.claim_writes.note(&all_objects(key.cluster()), claim.metadata.resource_version());
        Ok(Arc::new(claim))
    }

    async fn patch_volume(
        &self,
        key: &ObjectKey,
        subresource: &str,
        patch: Value,
    ) -> kube::Result<Arc<PersistentVolume>> {
        let volume: PersistentVolume = patched(&self.volume_objects, key, subresource, patch).await?;
        self.volume_writes.note(&all_objects(key.cluster()), volume.metadata.resource_version());
        Ok(Arc::new(volume))
    }

    fn record_claim_event(&self, key: &ObjectKey, claim: &PersistentVolumeClaim, event: PlannedEvent) {
        let about = Reference::to("v1", "PersistentVolumeClaim", &claim.metadata);
        self.record_event(key, about, event);
    }

    fn record_volume_event(&self, key: &ObjectKey, volume: &PersistentVolume, event: PlannedEvent) {
        let about = Reference::to("v1", "PersistentVolume", &volume.metadata);
        self.record_event(key, about, event);
    }

    fn record_event(&self, key: &ObjectKey, about: Reference, event: PlannedEvent) {
        let kind = if event.is_warning { EventType::Warning } else { EventType::Normal };
        self.recorder.event(key.cluster(), about, kind, event.reason, event.message);
    }
}

/// Patches an object, or a subresource.
async fn patched<T: serde::de::DeserializeOwned>(
    objects: &Objects,
    key: &ObjectKey,
    subresource: &str,
    patch: Value,
) -> kube::Result<T> {
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    if subresource.is_empty() {
        objects.patch(key, &params, &patch).await
    } else {
        objects.patch_subresource(key, subresource, &params, &patch).await
    }
}
