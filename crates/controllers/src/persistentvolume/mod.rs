//! Binding claims to volumes, and making volumes for claims.
//!
//! A binding is two references: the volume names its claim, then the claim its volume. What is done at each
//! step is planned from what both say ([`claim`], [`volume`]), so it can be left and taken up at any point.
//! Claims and volumes are in one queue with one worker, told apart by their namespace: two claims never reach
//! for the same volume at once.

mod claim;
mod matching;
mod patches;
mod provision;
mod terms;
#[cfg(test)]
mod tests;
mod volume;
mod wake;

use std::sync::Arc;

use coracle_runtime::{
    Action, Behind, ClusterId, Controller, EventType, Informer, Manager, ObjectKey, Objects, OwnWrites,
    Reconcile, Recorder, Reference, Written,
};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::Value;

use crate::refusal;
use crate::view::{
    Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, claims, nodes, pods, storage_classes,
    volumes,
};
use crate::{Registration, Settings};
use claim::Told;
use provision::PROVISIONER;
use terms::{SELECTED_NODE, phase};
use volume::Reclaim;

pub(crate) const REGISTRATION: Registration =
    Registration { name: "persistentvolume-binder-controller", register };

/// Under what name people are told.
const COMPONENT: &str = "persistentvolume-controller";

fn register(manager: &mut Manager, _settings: &Settings) {
    let binder = Binder {
        claim_objects: Objects::of::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(manager.client()),
        volume_objects: Objects::of::<k8s_openapi::api::core::v1::PersistentVolume>(manager.client()),
        claims: claims(manager),
        volumes: volumes(manager),
        classes: storage_classes(manager),
        pods: pods(manager),
        nodes: nodes(manager),
        recorder: manager.recorder(COMPONENT),
        claim_writes: OwnWrites::default(),
        volume_writes: OwnWrites::default(),
    };
    let (claims, volumes, classes) = (binder.claims.clone(), binder.volumes.clone(), binder.classes.clone());
    let (pods, nodes) = (binder.pods.clone(), binder.nodes.clone());
    wake::add_indexes(&claims, &volumes, &pods);
    let (of_claim, of_volume, of_class, of_pod) =
        (volumes.clone(), claims.clone(), claims.clone(), claims.clone());
    let controller = Controller::new(REGISTRATION.name, binder)
        .watches(&claims, move |change| wake::by_claim(change, of_claim.store()))
        .watches(&volumes, move |change| wake::by_volume(change, of_volume.store()))
        .watches(&classes, move |change| wake::by_class(change, of_class.store()))
        .watches(&pods, move |change| wake::by_pod(change, of_pod.store()))
        // Only to know them: what waits for a node is tried again.
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
    claim_writes: OwnWrites,
    volume_writes: OwnWrites,
}

/// Why a claim or a volume could not be looked after.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Behind(#[from] Behind),
    #[error("the server refused")]
    Refused(#[from] kube::Error),
    #[error("{0}")]
    Wrong(String),
}

impl Reconcile for Binder {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Error> {
        // What was written for one claim matters to all others.
        let all = everything(key.cluster());
        self.claim_writes.seen(&all, &self.claims).await?;
        self.volume_writes.seen(&all, &self.volumes).await?;
        if key.namespace().is_empty() {
            if let Some(volume) = self.volumes.store().get(key) {
                self.look_after_volume(key, volume).await?;
            }
        } else if let Some(claim) = self.claims.store().get(key) {
            self.look_after_claim(key, claim).await?;
        }
        Ok(Action::AwaitChange)
    }
}

/// What stands for all claims and volumes of a cluster.
fn everything(cluster: &ClusterId) -> ObjectKey {
    ObjectKey::cluster_wide(cluster.clone(), "")
}

impl Binder {
    async fn look_after_claim(
        &self,
        key: &ObjectKey,
        claim: Arc<PersistentVolumeClaim>,
    ) -> Result<(), Error> {
        let cluster = key.cluster();
        let planned = claim::plan(&claim::Known {
            claim: &claim,
            volumes: &self.volumes_for(cluster, &claim),
            classes: &self.classes.store().in_cluster(cluster),
            waiting_pods: &wake::waiting_pods(&self.pods, key),
        });
        match planned {
            claim::Plan::Bind(volume) => self.bind(key, claim, volume).await?,
            claim::Plan::Wait(told) => {
                if let Some(told) = told {
                    self.tell_claim(key, &claim, told);
                }
                self.write_claim_status(key, &claim, phase::PENDING, None).await?;
            }
            claim::Plan::Fail(told) => {
                let wrong = told.message.clone();
                self.tell_claim(key, &claim, told);
                return Err(Error::Wrong(wrong));
            }
            claim::Plan::Lose(told) => {
                if &*claim.status.phase != phase::LOST {
                    self.write_claim_status(key, &claim, phase::LOST, None).await?;
                    self.tell_claim(key, &claim, told);
                }
            }
            claim::Plan::Assign(class) => {
                self.patch_claim(key, "", patches::claim_class(&claim, &class)).await?;
            }
            claim::Plan::Provision(class) => self.provision(key, claim, &class).await?,
            claim::Plan::Await { provisioner, told } => {
                if let Some(patch) = patches::claim_provisioner(&claim, &provisioner) {
                    self.patch_claim(key, "", patch).await?;
                }
                self.tell_claim(key, &claim, told);
            }
            claim::Plan::Refuse(told) => self.tell_claim(key, &claim, told),
        }
        Ok(())
    }

    /// The volumes that matter to a claim: the one it names, or all.
    fn volumes_for(&self, cluster: &ClusterId, claim: &PersistentVolumeClaim) -> Vec<Arc<PersistentVolume>> {
        let (store, name) = (self.volumes.store(), &*claim.spec.volume_name);
        if name.is_empty() {
            return store.in_cluster(cluster);
        }
        store.get(&ObjectKey::cluster_wide(cluster.clone(), name)).into_iter().collect()
    }

    /// Binds both to each other, the volume first. Whatever of it is done already is not done again.
    async fn bind(
        &self,
        key: &ObjectKey,
        mut claim: Arc<PersistentVolumeClaim>,
        mut volume: Arc<PersistentVolume>,
    ) -> Result<(), Error> {
        let volume_key = ObjectKey::cluster_wide(key.cluster().clone(), volume.metadata.name());
        if let Some(patch) = patches::bind_volume(&volume, &claim) {
            volume = self.patch_volume(&volume_key, "", patch).await?;
        }
        if let Some(patch) = patches::volume_phase(&volume, phase::BOUND, "") {
            volume = self.patch_volume(&volume_key, "status", patch).await?;
        }
        if let Some(patch) = patches::bind_claim(&claim, &volume) {
            claim = self.patch_claim(key, "", patch).await?;
        }
        self.write_claim_status(key, &claim, phase::BOUND, Some(&volume)).await
    }

    /// Makes a volume for a claim. Binding them comes next, when the volume is known.
    async fn provision(
        &self,
        key: &ObjectKey,
        mut claim: Arc<PersistentVolumeClaim>,
        class: &StorageClass,
    ) -> Result<(), Error> {
        if let Some(patch) = patches::claim_provisioner(&claim, PROVISIONER) {
            claim = self.patch_claim(key, "", patch).await?;
        }
        let node = match claim.metadata.annotations.get(SELECTED_NODE) {
            None => None,
            Some(name) => {
                let node = self.nodes.store().get(&ObjectKey::cluster_wide(key.cluster().clone(), name));
                if node.is_none() {
                    let wrong = format!("Failed to get target node: node {name:?} not found");
                    self.tell_claim(key, &claim, Told::warning("ProvisioningFailed", wrong.clone()));
                    return Err(Error::Wrong(wrong));
                }
                node
            }
        };
        let volume = match provision::new_volume(&claim, class, node.as_deref()) {
            Ok(volume) => volume,
            Err(refusal) => {
                self.tell_claim(key, &claim, Told::warning("ProvisioningFailed", refusal.told));
                if refusal.is_of_node {
                    self.patch_claim(key, "", patches::forget_node(&claim)).await?;
                }
                return Ok(());
            }
        };
        self.create_volume(key, &claim, &volume).await
    }

    async fn create_volume(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
        volume: &Value,
    ) -> Result<(), Error> {
        let name = provision::volume_name(claim);
        let all = everything(key.cluster());
        match self.volume_objects.create::<Written>(&all, volume).await {
            Ok(written) => self.volume_writes.note(&all, &written.metadata.resource_version),
            // Made before, and not known yet.
            Err(error) if refusal::exists_already(&error) => return Ok(()),
            Err(error) => {
                let message = format!(
                    "Error creating provisioned PV object for claim {}/{}: {}. Deleting the volume.",
                    key.namespace(),
                    key.name(),
                    refusal::message(&error)
                );
                self.tell_claim(key, claim, Told::warning("ProvisioningFailed", message));
                return Err(error.into());
            }
        }
        let message = format!("Successfully provisioned volume {name} using {PROVISIONER}");
        self.tell_claim(key, claim, Told::normal("ProvisioningSucceeded", message));
        Ok(())
    }

    async fn look_after_volume(&self, key: &ObjectKey, volume: Arc<PersistentVolume>) -> Result<(), Error> {
        let claim = self.claim_of(key, &volume).await?;
        match volume::plan(&volume, claim.as_deref()) {
            volume::Plan::Nothing => {}
            volume::Plan::Phase(phase) => self.write_volume_phase(key, &volume, phase, "").await?,
            volume::Plan::Release(reclaim) => self.release(key, volume, reclaim).await?,
            volume::Plan::Unbind => {
                let volume = self.patch_volume(key, "", patches::unbind_volume(&volume)).await?;
                self.write_volume_phase(key, &volume, phase::AVAILABLE, "").await?;
            }
            volume::Plan::Mismatch(of_volume, of_claim) => {
                self.tell_volume(key, &volume, of_volume);
                if let Some(claim) = claim {
                    self.tell_claim(key, &claim, of_claim);
                }
            }
        }
        Ok(())
    }

    /// The claim a volume is bound to, if it is still there. Before a volume is given up the server is asked:
    /// what is known may be old.
    async fn claim_of(
        &self,
        key: &ObjectKey,
        volume: &PersistentVolume,
    ) -> Result<Option<Arc<PersistentVolumeClaim>>, Error> {
        let Some(bound) = volume.spec.claim_ref.as_ref().filter(|bound| !bound.uid.is_empty()) else {
            return Ok(None);
        };
        let is_it = |claim: &Arc<PersistentVolumeClaim>| *claim.metadata.uid() == *bound.uid;
        let claim_key = ObjectKey::namespaced(key.cluster().clone(), &*bound.namespace, &*bound.name);
        let known = self.claims.store().get(&claim_key);
        let is_given_up = matches!(&*volume.status.phase, phase::RELEASED | phase::FAILED);
        if known.as_ref().is_some_and(is_it) || (known.is_none() && is_given_up) {
            return Ok(known);
        }
        let fresh: Option<PersistentVolumeClaim> = self.claim_objects.get(&claim_key).await?;
        Ok(fresh.map(Arc::new).filter(is_it))
    }

    async fn release(
        &self,
        key: &ObjectKey,
        mut volume: Arc<PersistentVolume>,
        reclaim: Reclaim,
    ) -> Result<(), Error> {
        if !matches!(&*volume.status.phase, phase::RELEASED | phase::FAILED)
            && let Some(patch) = patches::volume_phase(&volume, phase::RELEASED, "")
        {
            volume = self.patch_volume(key, "status", patch).await?;
        }
        match reclaim {
            Reclaim::Keep => {}
            Reclaim::Delete if volume.metadata.is_terminating() => {}
            Reclaim::Delete => {
                let uid = Some(volume.metadata.uid().to_owned());
                let preconditions = Some(Preconditions { uid, resource_version: None });
                let params = DeleteParams { preconditions, ..DeleteParams::default() };
                self.volume_objects.delete(key, &params).await?;
                self.volume_writes.note_deleted(
                    &everything(key.cluster()),
                    key.clone(),
                    volume.metadata.uid(),
                );
            }
            Reclaim::Fail(told) => {
                if &*volume.status.phase != phase::FAILED {
                    self.write_volume_phase(key, &volume, phase::FAILED, &told.message).await?;
                    self.tell_volume(key, &volume, told);
                }
            }
        }
        Ok(())
    }

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
        self.claim_writes.note(&everything(key.cluster()), claim.metadata.resource_version());
        Ok(Arc::new(claim))
    }

    async fn patch_volume(
        &self,
        key: &ObjectKey,
        subresource: &str,
        patch: Value,
    ) -> kube::Result<Arc<PersistentVolume>> {
        let volume: PersistentVolume = patched(&self.volume_objects, key, subresource, patch).await?;
        self.volume_writes.note(&everything(key.cluster()), volume.metadata.resource_version());
        Ok(Arc::new(volume))
    }

    fn tell_claim(&self, key: &ObjectKey, claim: &PersistentVolumeClaim, told: Told) {
        let about = Reference::to("v1", "PersistentVolumeClaim", &claim.metadata);
        self.tell(key, about, told);
    }

    fn tell_volume(&self, key: &ObjectKey, volume: &PersistentVolume, told: Told) {
        let about = Reference::to("v1", "PersistentVolume", &volume.metadata);
        self.tell(key, about, told);
    }

    fn tell(&self, key: &ObjectKey, about: Reference, told: Told) {
        let kind = if told.is_warning { EventType::Warning } else { EventType::Normal };
        self.recorder.event(key.cluster(), about, kind, told.reason, told.message);
    }
}

/// Changes an object, or a part of it.
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
