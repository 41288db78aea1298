//! Carries out the plan for a volume: setting the phase, and reclaiming.

use std::sync::Arc;

use coracle_runtime::ObjectKey;
use kube::api::{DeleteParams, Preconditions};

use super::annotations::{PROVISIONED_BY, phase};
use super::metrics::UNKNOWN_PLUGIN;
use super::provision::PROVISIONER;
use super::volume::{self, Reclaim};
use super::{Binder, Error, all_objects, patches};
use crate::view::{PersistentVolume, PersistentVolumeClaim};

/// Operation name in metrics.
const DELETE: &str = "delete";

impl Binder {
    pub(super) async fn sync_volume(
        &self,
        key: &ObjectKey,
        volume: Arc<PersistentVolume>,
    ) -> Result<(), Error> {
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
                self.record_volume_event(key, &volume, of_volume);
                if let Some(claim) = claim {
                    self.record_claim_event(key, &claim, of_claim);
                }
            }
        }
        Ok(())
    }

    /// The claim that a volume is bound to, if it exists. Before a volume is released, the claim is read from the
    /// server, because the cache may be stale.
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
                // Its reclaim policy may have been changed to Retain.
                let resource_version = Some(volume.metadata.resource_version().to_owned());
                let preconditions = Some(Preconditions { uid, resource_version });
                let params = DeleteParams { preconditions, ..DeleteParams::default() };
                self.metrics.began(key, provisioner(&volume), DELETE);
                let deleted = self.volume_objects.delete(key, &params).await;
                deleted.inspect_err(|_| self.metrics.failed(key))?;
                self.volume_writes.note_deleted(
                    &all_objects(key.cluster()),
                    key.clone(),
                    volume.metadata.uid(),
                );
            }
            Reclaim::Fail(event) => {
                if &*volume.status.phase != phase::FAILED {
                    self.metrics.began(key, provisioner(&volume), DELETE);
                    self.metrics.failed(key);
                    self.write_volume_phase(key, &volume, phase::FAILED, &event.message).await?;
                    self.record_volume_event(key, &volume, event);
                }
            }
        }
        Ok(())
    }
}

/// Provisioner that deletes a volume.
fn provisioner(volume: &PersistentVolume) -> &'static str {
    let is_ours = volume.metadata.annotations.get(PROVISIONED_BY) == Some(PROVISIONER);
    if is_ours { PROVISIONER } else { UNKNOWN_PLUGIN }
}
