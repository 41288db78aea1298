//! Carries out the plan for a claim: binding, and provisioning volumes.

use std::sync::Arc;

use coracle_runtime::{ClusterId, ObjectKey, Written};
use serde_json::Value;

use super::annotations::{SELECTED_NODE, phase};
use super::claim::{self, PlannedEvent};
use super::provision::{self, PROVISIONER};
use super::{Binder, Error, all_objects, patches, triggers};
use crate::api_error;
use crate::view::{PersistentVolume, PersistentVolumeClaim, StorageClass};

/// Operation name in metrics.
const PROVISION: &str = "provision";

impl Binder {
    pub(super) async fn sync_claim(
        &self,
        key: &ObjectKey,
        claim: Arc<PersistentVolumeClaim>,
    ) -> Result<(), Error> {
        let cluster = key.cluster();
        let planned = claim::plan(&claim::Observed {
            claim: &claim,
            volumes: &self.volumes_for(cluster, &claim),
            classes: &self.classes.store().in_cluster(cluster),
            waiting_pods: &triggers::waiting_pods(&self.pods, key),
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
            claim::Plan::Wait(event) => {
                if let Some(event) = event {
                    self.record_claim_event(key, &claim, event);
                }
                self.write_claim_status(key, &claim, phase::PENDING, None).await?;
            }
            claim::Plan::Fail(event) => {
                let message = event.message.clone();
                self.record_claim_event(key, &claim, event);
                return Err(Error::Failed(message));
            }
            claim::Plan::Lose(event) => {
                if &*claim.status.phase != phase::LOST {
                    self.write_claim_status(key, &claim, phase::LOST, None).await?;
                    self.record_claim_event(key, &claim, event);
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
            claim::Plan::Await { provisioner, event } => {
                self.metrics.began(key, &provisioner, PROVISION);
                if let Some(patch) = patches::claim_provisioner(&claim, &provisioner) {
                    self.patch_claim(key, "", patch).await?;
                }
                self.record_claim_event(key, &claim, event);
            }
            claim::Plan::Refuse(event) => self.record_claim_event(key, &claim, event),
        }
        Ok(())
    }

    /// The volumes relevant for a claim: the one it names, or all.
    fn volumes_for(&self, cluster: &ClusterId, claim: &PersistentVolumeClaim) -> Vec<Arc<PersistentVolume>> {
        let (store, name) = (self.volumes.store(), &*claim.spec.volume_name);
        if name.is_empty() {
            return store.in_cluster(cluster);
        }
        store.get(&ObjectKey::cluster_wide(cluster.clone(), name)).into_iter().collect()
    }

    /// Binds volume and claim to each other, the volume first. Completed steps are not repeated.
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

    /// Creates a volume for a claim. Binding follows when the informer has seen the volume.
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
                    let message = format!("Failed to get target node: node {name:?} not found");
                    self.record_claim_event(
                        key,
                        &claim,
                        PlannedEvent::warning("ProvisioningFailed", message.clone()),
                    );
                    return Err(Error::Failed(message));
                }
                node
            }
        };
        let volume = match provision::new_volume(&claim, class, node.as_deref()) {
            Ok(volume) => volume,
            Err(error) => {
                self.record_claim_event(
                    key,
                    &claim,
                    PlannedEvent::warning("ProvisioningFailed", error.event),
                );
                self.metrics.failed(key);
                if error.is_node_specific {
                    self.patch_claim(key, "", patches::clear_selected_node(&claim)).await?;
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
        let all = all_objects(key.cluster());
        match self.volume_objects.create::<Written>(&all, volume).await {
            Ok(written) => self.volume_writes.note(&all, &written.metadata.resource_version),
            // Created before; the informer has not seen it yet.
            Err(error) if api_error::already_exists(&error) => return Ok(()),
            Err(error) => {
                let message = format!(
                    "Error creating provisioned PV object for claim {}/{}: {}. Deleting the volume.",
                    key.namespace(),
                    key.name(),
                    api_error::message(&error)
                );
                self.record_claim_event(key, claim, PlannedEvent::warning("ProvisioningFailed", message));
                return Err(error.into());
            }
        }
        let message = format!("Successfully provisioned volume {name} using {PROVISIONER}");
        self.record_claim_event(key, claim, PlannedEvent::normal("ProvisioningSucceeded", message));
        Ok(())
    }
}
