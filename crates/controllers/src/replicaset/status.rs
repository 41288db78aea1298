//! Status of a set.

use std::sync::Arc;

use coracle_base::Timestamp;
use coracle_meta::selector::labels::Selector;
use coracle_runtime::Action;
use serde_json::{Value, json};

use crate::api_error;
use crate::view::{Condition, Pod, PodSelector, Replicated, ReplicatedStatus, condition, next_available};

/// Condition for failures to create or delete pods.
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Why pods could not be created or deleted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    reason: &'static str,
    message: String,
}

impl Failure {
    pub(super) fn create(error: &kube::Error) -> Self {
        Self { reason: "FailedCreate", message: api_error::message(error) }
    }

    pub(super) fn delete(error: &kube::Error) -> Self {
        Self {
            reason: "FailedDelete",
            message: format!("unable to delete pods: {}", api_error::message(error)),
        }
    }
}

/// Computes the status from the pods.
pub(super) fn status<S: PodSelector>(
    set: &Replicated<S>,
    active: &[Arc<Pod>],
    terminating: Option<usize>,
    failure: Option<&Failure>,
    now: Timestamp,
) -> ReplicatedStatus {
    let of_template = Selector::from_set(set.spec.template.labels.iter());
    let count = |counts: &dyn Fn(&Pod) -> bool| number(active.iter().filter(|pod| counts(pod)).count());
    ReplicatedStatus {
        replicas: number(active.len()),
        fully_labeled_replicas: count(&|pod| of_template.matches(&pod.metadata.labels)),
        ready_replicas: count(&Pod::is_ready),
        available_replicas: count(&|pod| pod.is_available(set.spec.min_ready_seconds, now)),
        terminating_replicas: terminating.map(number),
        observed_generation: set.metadata.generation,
        conditions: conditions(&set.status.conditions, failure, now),
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A failure is reported once and kept unchanged until it is resolved.
fn conditions(known: &[Condition], failure: Option<&Failure>, now: Timestamp) -> Box<[Condition]> {
    let Some(failure) = failure else {
        return known.iter().filter(|condition| &*condition.r#type != REPLICA_FAILURE).cloned().collect();
    };
    if condition(known, REPLICA_FAILURE).is_some() {
        return known.into();
    }
    let new = Condition {
        r#type: REPLICA_FAILURE.into(),
        status: "True".into(),
        last_transition_time: Some(now),
        reason: failure.reason.into(),
        message: failure.message.as_str().into(),
        ..Condition::default()
    };
    known.iter().cloned().chain([new]).collect()
}

/// A patch of the status that fails if the set has changed. Zeros are omitted, as in Kubernetes.
pub(super) fn patch<S: PodSelector>(set: &Replicated<S>, status: &ReplicatedStatus) -> Value {
    let some = |number: i32| (number != 0).then_some(number);
    json!({
        "metadata": {"uid": set.metadata.uid(), "resourceVersion": set.metadata.resource_version()},
        "status": {
            "replicas": status.replicas,
            "fullyLabeledReplicas": some(status.fully_labeled_replicas),
            "readyReplicas": some(status.ready_replicas),
            "availableReplicas": some(status.available_replicas),
            "terminatingReplicas": status.terminating_replicas,
            "observedGeneration": status.observed_generation,
            "conditions": (!status.conditions.is_empty()).then_some(&status.conditions),
        },
    })
}

/// Waits until the next ready pod becomes available.
pub(super) fn next_availability(active: &[Arc<Pod>], min_ready_seconds: i32, now: Timestamp) -> Action {
    let next = active.iter().filter_map(|pod| next_available(pod, min_ready_seconds, now)).min();
    next.map_or(Action::AwaitChange, Action::RequeueAfter)
}
