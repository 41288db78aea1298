//! The conditions of a deployment.

use coracle_base::Timestamp;

use crate::view::{Condition, condition};

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Why a deployment is or is not progressing.
pub(super) const NEW_SET_CREATED: &str = "NewReplicaSetCreated";
pub(super) const NEW_SET_FOUND: &str = "FoundNewReplicaSet";
pub(super) const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
pub(super) const SET_UPDATED: &str = "ReplicaSetUpdated";
pub(super) const SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
pub(super) const PAUSED: &str = "DeploymentPaused";
pub(super) const RESUMED: &str = "DeploymentResumed";

/// A condition that holds since now.
pub(super) fn new(r#type: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Condition {
    Condition {
        r#type: r#type.into(),
        status: status.into(),
        last_update_time: Some(now),
        last_transition_time: Some(now),
        reason: reason.into(),
        message: message.into(),
        ..Condition::default()
    }
}

/// Puts a condition in the place of one of its type, at the end. One of the same status and reason stays as
/// it is, and one of the same status keeps its time.
pub(super) fn set(all: &mut Vec<Condition>, mut new: Condition) {
    if let Some(known) = condition(all, &new.r#type) {
        if known.status == new.status && known.reason == new.reason {
            return;
        }
        if known.status == new.status {
            new.last_transition_time = known.last_transition_time;
        }
    }
    remove(all, &new.r#type);
    all.push(new);
}

pub(super) fn remove(all: &mut Vec<Condition>, r#type: &str) {
    all.retain(|condition| *condition.r#type != *r#type);
}

/// Whether there is a condition of this type for this reason.
pub(super) fn has_reason(all: &[Condition], r#type: &str, reason: &str) -> bool {
    condition(all, r#type).is_some_and(|condition| &*condition.reason == reason)
}
