//! What is to be done about a volume, as a pure function.

use super::claim::Told;
use super::matching::modes_differ;
use super::provision::{PROVISIONER, is_in_tree};
use super::terms::{BOUND_BY_CONTROLLER, MIGRATED_TO, PROVISIONED_BY, phase};
use crate::view::{PersistentVolume, PersistentVolumeClaim};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing, until the claim is looked at.
    Nothing,
    /// It gets this phase.
    Phase(&'static str),
    /// Nobody needs it any more.
    Release(Reclaim),
    /// The claim has another volume: this one is free again, or reserved again.
    Unbind,
    /// It can never be bound to the claim that it is reserved for. The first is told about the volume.
    Mismatch(Told, Told),
}

/// What becomes of a volume that nobody needs any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reclaim {
    /// It stays, or somebody else takes care of it.
    Keep,
    Delete,
    Fail(Told),
}

/// `claim` is the one that the volume is bound to, if that is still there.
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
    Plan::Mismatch(Told::warning("VolumeMismatch", of_volume), Told::warning("VolumeMismatch", of_claim))
}

/// The claim has been bound to another volume.
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
        // What recycles volumes is deprecated, and was only ever there for two sorts of them.
        "Recycle" => {
            let message = "No recycler plugin found for the volume!";
            Reclaim::Fail(Told::warning("VolumeFailedRecycle", message))
        }
        _ => {
            let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
            Reclaim::Fail(Told::warning("VolumeUnknownReclaimPolicy", message))
        }
    }
}

fn delete(volume: &PersistentVolume) -> Reclaim {
    let fail = |message: String| Reclaim::Fail(Told::warning("VolumeFailedDelete", message));
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
        // Upstream also empties the directory on the machine it runs on, which is nobody's node.
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

/// Whether a volume that was bound by the controller, rather than reserved by its maker.
pub(super) fn is_bound_by_controller(volume: &PersistentVolume) -> bool {
    volume.metadata.annotations.contains_key(BOUND_BY_CONTROLLER)
}
