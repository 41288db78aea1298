//! Status of a deployment, including the progress of its rollout.

use std::time::Duration;

use coracle_base::Timestamp;
use serde_json::{Value, json};

use super::annotations::REVISION;
use super::conditions::{
    self, AVAILABLE, NEW_SET_AVAILABLE, PROGRESSING, REPLICA_FAILURE, SET_UPDATED, TIMED_OUT, has_reason,
};
use super::limits::min_available;
use super::sets::Sets;
use crate::view::{Condition, Deployment, DeploymentStatus, ReplicaSet, condition};

/// The progress deadline, if there is one.
pub(super) fn deadline(deployment: &Deployment) -> Option<Duration> {
    let seconds = deployment.spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

/// The status with the counted pods, these conditions, and the Available condition.
pub(super) fn counted(
    deployment: &Deployment,
    sets: &Sets,
    mut conditions: Vec<Condition>,
    now: Timestamp,
) -> DeploymentStatus {
    let sum = |of: fn(&ReplicaSet) -> i32| sets.all().map(|set| of(set)).sum::<i32>();
    let available = sets.available();
    let (status, reason, message) = if available >= min_available(deployment) {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    conditions::set(&mut conditions, conditions::new(AVAILABLE, status, reason, message, now));
    DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: sum(|set| set.status.replicas),
        updated_replicas: sets.new.as_ref().map_or(0, |new| new.status.replicas),
        ready_replicas: sum(|set| set.status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: (sets.wanted() - available).max(0),
        terminating_replicas: terminating(sets),
        collision_count: deployment.status.collision_count,
        conditions,
    }
}

/// `None` if an observed set does not report terminating pods.
fn terminating(sets: &Sets) -> Option<i32> {
    let was_observed = |set: &ReplicaSet| set.status.observed_generation != 0;
    let of = |set: &ReplicaSet| {
        let none = (!was_observed(set)).then_some(0);
        set.status.terminating_replicas.or(none)
    };
    sets.all().map(|set| of(set)).sum()
}

/// Like [`counted`], with the Progressing and ReplicaFailure conditions.
pub(super) fn of_rollout(
    deployment: &Deployment,
    sets: &Sets,
    conditions: Vec<Condition>,
    now: Timestamp,
) -> DeploymentStatus {
    let mut status = counted(deployment, sets, conditions, now);
    match deadline(deployment) {
        None => conditions::remove(&mut status.conditions, PROGRESSING),
        Some(deadline) => {
            let is_over = status.replicas == status.updated_replicas
                && has_reason(&status.conditions, PROGRESSING, NEW_SET_AVAILABLE);
            if !is_over {
                progress(deployment, sets, &mut status, deadline, now);
            }
        }
    }
    match failure(sets) {
        Some(failure) => conditions::set(&mut status.conditions, failure),
        None => conditions::remove(&mut status.conditions, REPLICA_FAILURE),
    }
    status
}

/// Sets the Progressing condition.
fn progress(
    deployment: &Deployment,
    sets: &Sets,
    status: &mut DeploymentStatus,
    deadline: Duration,
    now: Timestamp,
) {
    let subject = match &sets.new {
        Some(new) => format!("ReplicaSet \"{}\"", new.metadata.name()),
        None => format!("Deployment \"{}\"", deployment.metadata.name()),
    };
    if is_complete(deployment, status) {
        let message = format!("{subject} has successfully progressed.");
        let condition = conditions::new(PROGRESSING, "True", NEW_SET_AVAILABLE, &message, now);
        conditions::set(&mut status.conditions, condition);
    } else if has_progressed(&deployment.status, status) {
        let message = format!("{subject} is progressing.");
        let mut new = conditions::new(PROGRESSING, "True", SET_UPDATED, &message, now);
        // Every progress restarts the deadline, also if the reason stays the same.
        if let Some(current) = condition(&status.conditions, PROGRESSING).filter(|current| current.is_true())
        {
            new.last_transition_time = current.last_transition_time;
        }
        conditions::remove(&mut status.conditions, PROGRESSING);
        status.conditions.push(new);
    } else if is_timed_out(&status.conditions, deadline, now) {
        let message = format!("{subject} has timed out progressing.");
        let condition = conditions::new(PROGRESSING, "False", TIMED_OUT, &message, now);
        conditions::set(&mut status.conditions, condition);
    }
}

/// True if all pods are updated and available, and no old ones are left.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = deployment.replicas();
    [status.updated_replicas, status.replicas, status.available_replicas] == [wanted; 3]
        && status.observed_generation >= deployment.metadata.generation
}

fn has_progressed(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    new.updated_replicas > old.updated_replicas
        || new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

fn is_timed_out(conditions: &[Condition], deadline: Duration, now: Timestamp) -> bool {
    let Some(condition) = condition(conditions, PROGRESSING) else { return false };
    match &*condition.reason {
        // The condition of the previous rollout does not count for this one.
        NEW_SET_AVAILABLE => false,
        TIMED_OUT => true,
        _ => condition.last_update_time.is_some_and(|since| since + deadline < now),
    }
}

/// The ReplicaFailure condition of the sets, preferably of the new one.
fn failure(sets: &Sets) -> Option<Condition> {
    let all = sets.new.iter().chain(&sets.old);
    let failure = all.flat_map(|set| &set.status.conditions);
    let mut failure = failure.filter(|condition| &*condition.r#type == REPLICA_FAILURE);
    failure
        .next()
        .map(|condition| Condition { last_update_time: condition.last_transition_time, ..condition.clone() })
}

/// When to check the progress deadline if nothing changes.
pub(super) fn next_deadline_check(
    deployment: &Deployment,
    status: &DeploymentStatus,
    now: Timestamp,
) -> Option<Duration> {
    let deadline = deadline(deployment)?;
    let condition = condition(&status.conditions, PROGRESSING)?;
    // Neither of these can exceed the deadline.
    if is_complete(deployment, status) || [TIMED_OUT, NEW_SET_AVAILABLE].contains(&&*condition.reason) {
        return None;
    }
    let due = condition.last_update_time? + deadline;
    // Times have a precision of one second, so a second is added.
    Some(due.since(now) + Duration::from_secs(1))
}

/// A patch of the status and the revision annotation that fails if the deployment has changed. Zeros are omitted, as
/// in Kubernetes.
pub(super) fn patch(deployment: &Deployment, status: &DeploymentStatus, revision: Option<&str>) -> Value {
    let some = |number: i32| (number != 0).then_some(number);
    let metadata = &deployment.metadata;
    let mut patch = json!({
        "metadata": {"uid": metadata.uid(), "resourceVersion": metadata.resource_version()},
        "status": {
            "observedGeneration": status.observed_generation,
            "replicas": some(status.replicas),
            "updatedReplicas": some(status.updated_replicas),
            "readyReplicas": some(status.ready_replicas),
            "availableReplicas": some(status.available_replicas),
            "unavailableReplicas": some(status.unavailable_replicas),
            "terminatingReplicas": status.terminating_replicas,
            "collisionCount": status.collision_count,
            "conditions": (!status.conditions.is_empty()).then_some(&status.conditions),
        },
    });
    if let Some(revision) = revision {
        patch["metadata"]["annotations"] = json!({REVISION: revision});
    }
    patch
}
