//! Plans for a claim. Pure.

use std::sync::Arc;

use super::annotations::{
    BOUND_BY_CONTROLLER, SELECTED_NODE, class_of_claim, has_class, is_bind_completed, is_bound_to,
    is_default, waits_for_consumer,
};
use super::matching::{best, mismatch};
use super::provision;
use crate::view::{PersistentVolume, PersistentVolumeClaim, StorageClass};

/// Observed state that the plan is based on.
#[derive(Clone, Copy)]
pub(super) struct Observed<'a> {
    pub(super) claim: &'a PersistentVolumeClaim,
    /// All volumes of the cluster, or at least the one that the claim names.
    pub(super) volumes: &'a [Arc<PersistentVolume>],
    /// All storage classes of the cluster.
    pub(super) classes: &'a [Arc<StorageClass>],
    /// Names of the unscheduled pods that use the claim.
    pub(super) waiting_pods: &'a [String],
}

/// An event to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedEvent {
    pub(super) is_warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl PlannedEvent {
    pub(super) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: false, reason, message: message.into() }
    }

    pub(super) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: true, reason, message: message.into() }
    }
}

/// Next step for a claim.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// Bind it to this volume, or complete the binding.
    Bind(Arc<PersistentVolume>),
    /// Wait.
    Wait(Option<PlannedEvent>),
    /// Fail: the state has to be corrected by someone.
    Fail(PlannedEvent),
    /// Mark it as lost, because its volume is gone. The event is recorded once.
    Lose(PlannedEvent),
    /// Assign the default storage class.
    Assign(Box<str>),
    /// Create a volume with Coracle's provisioner.
    Provision(Arc<StorageClass>),
    /// Wait for an external provisioner.
    Await { provisioner: Box<str>, event: PlannedEvent },
    /// Report that no volume can be provisioned. The phase stays as it is.
    Refuse(PlannedEvent),
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let claim = observed.claim;
    let named = observed.volumes.iter().find(|volume| *volume.metadata.name() == *claim.spec.volume_name);
    match (is_bind_completed(claim), claim.spec.volume_name.is_empty()) {
        (true, true) => {
            lost("Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
        }
        (true, false) => match named {
            None => lost("Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
            Some(volume) => keep_bound(claim, volume),
        },
        (false, true) => find_volume(observed),
        (false, false) => named.map_or(Plan::Wait(None), |volume| bind_requested(claim, volume)),
    }
}

fn lost(message: &str) -> Plan {
    Plan::Lose(PlannedEvent::warning("ClaimLost", message))
}

fn keep_bound(claim: &PersistentVolumeClaim, volume: &Arc<PersistentVolume>) -> Plan {
    match &volume.spec.claim_ref {
        Some(bound) if *bound.uid != *claim.metadata.uid() => {
            let message = "Two claims are bound to the same volume, this one is bound incorrectly";
            Plan::Lose(PlannedEvent::warning("ClaimMisbound", message))
        }
        _ => Plan::Bind(Arc::clone(volume)),
    }
}

/// The user requested a volume by name.
fn bind_requested(claim: &PersistentVolumeClaim, volume: &Arc<PersistentVolume>) -> Plan {
    let name = volume.metadata.name();
    if volume.spec.claim_ref.is_none() {
        let mismatch = mismatch(volume, claim);
        let event = |reason| {
            PlannedEvent::warning(
                "VolumeMismatch",
                format!("Cannot bind to requested volume {name:?}: {reason}"),
            )
        };
        return mismatch
            .map_or_else(|| Plan::Bind(Arc::clone(volume)), |reason| Plan::Wait(Some(event(reason))));
    }
    if is_bound_to(volume, claim) {
        return Plan::Bind(Arc::clone(volume));
    }
    let event = PlannedEvent::warning(
        "FailedBinding",
        format!("volume {name:?} already bound to a different claim."),
    );
    // The binding made by this controller was undone.
    if claim.metadata.annotations.contains_key(BOUND_BY_CONTROLLER) {
        Plan::Fail(event)
    } else {
        Plan::Wait(Some(event))
    }
}

/// No volume is requested by name.
fn find_volume(observed: &Observed<'_>) -> Plan {
    let claim = observed.claim;
    let wanted = class_of_claim(claim);
    let class = observed.classes.iter().find(|class| class.metadata.name() == wanted);
    let waits = class.is_some_and(|class| waits_for_consumer(class));
    if let Some(volume) = best(claim, observed.volumes, waits) {
        return Plan::Bind(volume);
    }
    if !has_class(claim)
        && let Some(default) = default_class(observed.classes)
    {
        return Plan::Assign(default.metadata.name().into());
    }
    if waits && !claim.metadata.annotations.contains_key(SELECTED_NODE) {
        return Plan::Wait(Some(waiting(observed.waiting_pods)));
    }
    if wanted.is_empty() {
        let message = "no persistent volumes available for this claim and no storage class is set";
        return Plan::Wait(Some(PlannedEvent::normal("FailedBinding", message)));
    }
    class.map_or_else(
        || {
            let message = format!("storageclass.storage.k8s.io {wanted:?} not found");
            Plan::Refuse(PlannedEvent::warning("ProvisioningFailed", message))
        },
        provision::by,
    )
}

/// The default storage class: the newest of several.
fn default_class(classes: &[Arc<StorageClass>]) -> Option<&Arc<StorageClass>> {
    let defaults = classes.iter().filter(|class| is_default(class));
    defaults.max_by(|one, other| {
        let created = |class: &StorageClass| class.metadata.creation_timestamp;
        created(one).cmp(&created(other)).then_with(|| other.metadata.name().cmp(one.metadata.name()))
    })
}

fn waiting(pods: &[String]) -> PlannedEvent {
    match pods {
        [] => {
            let message = "waiting for first consumer to be created before binding";
            PlannedEvent::normal("WaitForFirstConsumer", message)
        }
        [pod] => {
            PlannedEvent::normal("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled"))
        }
        pods => {
            let message = format!("waiting for pods {} to be scheduled", pods.join(","));
            PlannedEvent::normal("WaitForPodScheduled", message)
        }
    }
}
