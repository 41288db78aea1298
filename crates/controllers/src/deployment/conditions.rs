//! Conditions of a deployment.

use coracle_base::Timestamp;

use crate::view::{Condition, condition};

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Reasons of the Progressing condition.
pub(super) const NEW_SET_CREATED: &str = "NewReplicaSetCreated";
pub(super) const NEW_SET_FOUND: &str = "FoundNewReplicaSet";
pub(super) const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
pub(super) const SET_UPDATED: &str = "ReplicaSetUpdated";
pub(super) const SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
pub(super) const PAUSED: &str = "DeploymentPaused";
pub(super) const RESUMED: &str = "DeploymentResumed";

/// Creates a condition whose times are `now`.
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

/// Replaces the condition of the same type, at the end of the list. A condition with the same status and reason is
/// left as it is, and one with the same status keeps its transition time.
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

/// True if the condition of this type has this reason.
pub(super) fn has_reason(all: &[Condition], r#type: &str, reason: &str) -> bool {
    condition(all, r#type).is_some_and(|condition| &*condition.reason == reason)
}
