//! Plans for a volume. Pure.

use super::annotations::{BOUND_BY_CONTROLLER, MIGRATED_TO, PROVISIONED_BY, phase};
use super::claim::PlannedEvent;
use super::matching::modes_differ;
use super::provision::{PROVISIONER, is_in_tree};
use crate::view::{PersistentVolume, PersistentVolumeClaim};

/// Next step for a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing until the claim is reconciled.
    Nothing,
    /// Set this phase.
    Phase(&'static str),
    /// Release it: the claim is gone.
    Release(Reclaim),
    /// Unbind it: the claim is bound to another volume. It becomes available, or reserved, again.
    Unbind,
    /// It can never be bound to the claim that it is reserved for. The first event is about the volume, the second
    /// about the claim.
    Mismatch(PlannedEvent, PlannedEvent),
}

/// How to reclaim a released volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reclaim {
    /// Keep it, or leave it to another controller.
    Keep,
    Delete,
    Fail(PlannedEvent),
}

/// `claim` is the one that the volume is bound to, if it exists.
pub(super) fn plan(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> Plan {
    match (&volume.spec.claim_ref, claim) {
        (None, _) => Plan::Phase(phase::AVAILABLE),
        (Some(bound), _) if bound.uid.is_empty() => Plan::Phase(phase::AVAILABLE),
        (Some(_), None) => Plan::Release(reclaim(volume)),
        (Some(_), Some(claim)) if claim.spec.volume_name.is_empty() => await_claim(volume, claim),
        (Some(_), Some(claim)) if *claim.spec.volume_name == *volume.metadata.name() => {
            Plan::Phase(phase::BOUND)
        }
        _ => leave_claim(volume),
    }
}

fn await_claim(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Plan {
    if !modes_differ(volume, claim) {
        return Plan::Nothing;
    }
    let of_volume = format!(
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
        claim.metadata.name()
    );
    let of_claim = format!(
        "Cannot bind PersistentVolume {:?} to requested PersistentVolumeClaim due to incompatible volumeMode.",
        volume.metadata.name()
    );
    Plan::Mismatch(
        PlannedEvent::warning("VolumeMismatch", of_volume),
        PlannedEvent::warning("VolumeMismatch", of_claim),
    )
}

/// The claim is bound to another volume.
fn leave_claim(volume: &PersistentVolume) -> Plan {
    let is_provisioned = volume.metadata.annotations.contains_key(PROVISIONED_BY);
    if is_provisioned && &*volume.spec.persistent_volume_reclaim_policy == "Delete" {
        Plan::Release(reclaim(volume))
    } else {
        Plan::Unbind
    }
}

fn reclaim(volume: &PersistentVolume) -> Reclaim {
    if volume.metadata.annotations.get(MIGRATED_TO).is_some_and(|driver| !driver.is_empty()) {
        return Reclaim::Keep;
    }
    match &*volume.spec.persistent_volume_reclaim_policy {
        "Retain" => Reclaim::Keep,
        "Delete" => delete(volume),
        // Recycling is deprecated, and was supported for two volume types only.
        "Recycle" => {
            let message = "No recycler plugin found for the volume!";
            Reclaim::Fail(PlannedEvent::warning("VolumeFailedRecycle", message))
        }
        _ => {
            let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
            Reclaim::Fail(PlannedEvent::warning("VolumeUnknownReclaimPolicy", message))
        }
    }
}

fn delete(volume: &PersistentVolume) -> Reclaim {
    let fail = |message: String| Reclaim::Fail(PlannedEvent::warning("VolumeFailedDelete", message));
    match volume.metadata.annotations.get(PROVISIONED_BY).filter(|provisioner| !provisioner.is_empty()) {
        Some(PROVISIONER) => return Reclaim::Delete,
        Some(provisioner) if is_in_tree(provisioner) => {
            return fail(format!("no volume plugin matched name: {provisioner}"));
        }
        Some(_) => return Reclaim::Keep,
        None => {}
    }
    match (&volume.spec.csi, &volume.spec.host_path) {
        (Some(_), _) => Reclaim::Keep,
        // Kubernetes also deletes the directory on the machine of kube-controller-manager, which usually is no node.
        (None, Some(host)) if host.path.strip_prefix("/tmp/").is_some_and(|rest| !rest.is_empty()) => {
            Reclaim::Delete
        }
        (None, Some(host)) => {
            fail(format!("host_path deleter only supports /tmp/.+ but received provided {}", host.path))
        }
        (None, None) => fail(format!(
            "error getting deleter volume plugin for volume {:?}: no deletable volume plugin matched",
            volume.metadata.name()
        )),
    }
}

/// True if the controller bound the volume, rather than the user who reserved it.
pub(super) fn is_bound_by_controller(volume: &PersistentVolume) -> bool {
    volume.metadata.annotations.contains_key(BOUND_BY_CONTROLLER)
}
