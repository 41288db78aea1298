//! What is to be done about a claim, as a pure function.

use std::sync::Arc;

use super::matching::{best, mismatch};
use super::provision;
use super::terms::{
    BOUND_BY_CONTROLLER, SELECTED_NODE, class_of_claim, has_class, is_bind_completed, is_bound_to,
    is_default, waits_for_consumer,
};
use crate::view::{PersistentVolume, PersistentVolumeClaim, StorageClass};

/// All that is known around a claim.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) claim: &'a PersistentVolumeClaim,
    /// All volumes of the cluster, or at least the one that the claim names.
    pub(super) volumes: &'a [Arc<PersistentVolume>],
    /// All classes of the cluster.
    pub(super) classes: &'a [Arc<StorageClass>],
    /// The names of the pods that use the claim and have no node yet.
    pub(super) waiting_pods: &'a [String],
}

/// What people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) is_warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Told {
    pub(super) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: false, reason, message: message.into() }
    }

    pub(super) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: true, reason, message: message.into() }
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// Binds it to this volume, or completes that.
    Bind(Arc<PersistentVolume>),
    /// It has to wait.
    Wait(Option<Told>),
    /// It has to wait for something that will not come by itself.
    Fail(Told),
    /// Its volume is gone, and what was on it. Told once.
    Lose(Told),
    /// It gets this class.
    Assign(Box<str>),
    /// A volume is made for it by us.
    Provision(Arc<StorageClass>),
    /// A volume is to be made for it by somebody else.
    Await { provisioner: Box<str>, told: Told },
    /// Nothing can be made for it. Its phase stays as it is.
    Refuse(Told),
}

pub(super) fn plan(known: &Known<'_>) -> Plan {
    let claim = known.claim;
    let named = known.volumes.iter().find(|volume| *volume.metadata.name() == *claim.spec.volume_name);
    match (is_bind_completed(claim), claim.spec.volume_name.is_empty()) {
        (true, true) => {
            lost("Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
        }
        (true, false) => match named {
            None => lost("Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
            Some(volume) => keep_bound(claim, volume),
        },
        (false, true) => find_volume(known),
        (false, false) => named.map_or(Plan::Wait(None), |volume| take_named(claim, volume)),
    }
}

fn lost(message: &str) -> Plan {
    Plan::Lose(Told::warning("ClaimLost", message))
}

fn keep_bound(claim: &PersistentVolumeClaim, volume: &Arc<PersistentVolume>) -> Plan {
    match &volume.spec.claim_ref {
        Some(bound) if *bound.uid != *claim.metadata.uid() => {
            let message = "Two claims are bound to the same volume, this one is bound incorrectly";
            Plan::Lose(Told::warning("ClaimMisbound", message))
        }
        _ => Plan::Bind(Arc::clone(volume)),
    }
}

/// The user asked for a volume by its name.
fn take_named(claim: &PersistentVolumeClaim, volume: &Arc<PersistentVolume>) -> Plan {
    let name = volume.metadata.name();
    if volume.spec.claim_ref.is_none() {
        let mismatch = mismatch(volume, claim);
        let told = |reason| {
            Told::warning("VolumeMismatch", format!("Cannot bind to requested volume {name:?}: {reason}"))
        };
        return mismatch
            .map_or_else(|| Plan::Bind(Arc::clone(volume)), |reason| Plan::Wait(Some(told(reason))));
    }
    if is_bound_to(volume, claim) {
        return Plan::Bind(Arc::clone(volume));
    }
    let told = Told::warning("FailedBinding", format!("volume {name:?} already bound to a different claim."));
    // Somebody has undone our own binding.
    if claim.metadata.annotations.contains_key(BOUND_BY_CONTROLLER) {
        Plan::Fail(told)
    } else {
        Plan::Wait(Some(told))
    }
}

/// Any volume will do.
fn find_volume(known: &Known<'_>) -> Plan {
    let claim = known.claim;
    let wanted = class_of_claim(claim);
    let class = known.classes.iter().find(|class| class.metadata.name() == wanted);
    let waits = class.is_some_and(|class| waits_for_consumer(class));
    if let Some(volume) = best(claim, known.volumes, waits) {
        return Plan::Bind(volume);
    }
    if !has_class(claim)
        && let Some(default) = default_class(known.classes)
    {
        return Plan::Assign(default.metadata.name().into());
    }
    if waits && !claim.metadata.annotations.contains_key(SELECTED_NODE) {
        return Plan::Wait(Some(waiting(known.waiting_pods)));
    }
    if wanted.is_empty() {
        let message = "no persistent volumes available for this claim and no storage class is set";
        return Plan::Wait(Some(Told::normal("FailedBinding", message)));
    }
    class.map_or_else(
        || {
            let message = format!("storageclass.storage.k8s.io {wanted:?} not found");
            Plan::Refuse(Told::warning("ProvisioningFailed", message))
        },
        provision::by,
    )
}

/// The class that claims get which name none: the newest of several.
fn default_class(classes: &[Arc<StorageClass>]) -> Option<&Arc<StorageClass>> {
    let defaults = classes.iter().filter(|class| is_default(class));
    defaults.max_by(|one, other| {
        let made = |class: &StorageClass| class.metadata.creation_timestamp;
        made(one).cmp(&made(other)).then_with(|| other.metadata.name().cmp(one.metadata.name()))
    })
}

fn waiting(pods: &[String]) -> Told {
    match pods {
        [] => {
            let message = "waiting for first consumer to be created before binding";
            Told::normal("WaitForFirstConsumer", message)
        }
        [pod] => Told::normal("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
        pods => {
            let message = format!("waiting for pods {} to be scheduled", pods.join(","));
            Told::normal("WaitForPodScheduled", message)
        }
    }
}
