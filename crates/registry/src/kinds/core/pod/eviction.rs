//! What eviction asks of a pod, and does to it.

use serde_json::{Value, json};

use super::binding::set_condition;
use crate::view;

/// Whether a pod may be deleted whatever budgets say: it does not run yet, or no longer.
pub fn can_ignore_budgets(pod: &Value) -> bool {
    is_ending(pod) || view::text(pod, &["status", "phase"]) == "Pending"
}

/// Whether it is over with a pod, or soon will be.
pub fn is_ending(pod: &Value) -> bool {
    matches!(view::text(pod, &["status", "phase"]), "Succeeded" | "Failed")
        || view::at(pod, &["metadata", "deletionTimestamp"]).is_some()
}

/// Whether a pod is ready, which for budgets is the same as healthy.
pub fn is_ready(pod: &Value) -> bool {
    view::items(pod, &["status", "conditions"]).iter().any(|condition| {
        view::text(condition, &["type"]) == "Ready" && view::text(condition, &["status"]) == "True"
    })
}

/// Notes in a pod why it ends; `now` as it is to stand in the condition.
pub fn mark_as_target(pod: &mut Value, now: &str) {
    view::set_default(pod, "status", || json!({}));
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    });
    set_condition(&mut pod["status"], condition, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_count_for_running_pods() {
        let pod = |phase: &str| json!({"status": {"phase": phase}});
        assert!(!can_ignore_budgets(&pod("Running")) && !can_ignore_budgets(&json!({})));
        assert!(can_ignore_budgets(&pod("Pending")) && !is_ending(&pod("Pending")));
        assert!(can_ignore_budgets(&pod("Failed")) && is_ending(&pod("Failed")));
        assert!(is_ending(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})));
    }

    #[test]
    fn the_reason_is_noted_once() {
        let mut pod = json!({});
        mark_as_target(&mut pod, "2026-01-01T00:00:00Z");
        mark_as_target(&mut pod, "2026-01-02T00:00:00Z");
        let conditions = view::items(&pod, &["status", "conditions"]);
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert!(!is_ready(&pod));
    }
}
