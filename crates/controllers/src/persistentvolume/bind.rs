//! Doing what is planned for claims: binding them, and making volumes for them.

use std::sync::Arc;

use coracle_runtime::{ClusterId, ObjectKey, Written};
use serde_json::Value;

use super::claim::{self, Told};
use super::provision::{self, PROVISIONER};
use super::terms::{SELECTED_NODE, phase};
use super::{Binder, Error, everything, patches, wake};
use crate::refusal;
use crate::view::{PersistentVolume, PersistentVolumeClaim, StorageClass};

/// What making a volume is called in metrics.
const PROVISION: &str = "provision";

impl Binder {
    pub(super) async fn look_after_claim(
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
            claim::Plan::Bind(volume) => {
                let bound = self.bind(key, claim, volume).await;
                if bound.is_ok() {
                    self.metrics.done(key);
                } else {
                    self.metrics.failed(key);
                }
                return bound;
            }
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
                let assigned = self.patch_claim(key, "", patches::claim_class(&claim, &class)).await;
                self.metrics.assigned_class(assigned.is_ok());
                assigned?;
            }
            claim::Plan::Provision(class) => {
                self.metrics.began(key, PROVISIONER, PROVISION);
                let provisioned = self.provision(key, claim, &class).await;
                if provisioned.is_err() {
                    self.metrics.failed(key);
                }
                return provisioned;
            }
            claim::Plan::Await { provisioner, told } => {
                self.metrics.began(key, &provisioner, PROVISION);
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
                self.metrics.failed(key);
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
}
