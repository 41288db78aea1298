//! Eviction of a pod: its preconditions, and its effect on the pod.

use serde_json::{Value, json};

use super::binding::set_condition;
use crate::view;

/// Returns true if a pod may be evicted regardless of disruption budgets, because it is pending or ending.
pub fn can_ignore_budgets(pod: &Value) -> bool {
    is_ending(pod) || view::text(pod, &["status", "phase"]) == "Pending"
}

/// Returns true if a pod has terminated or is being deleted.
pub fn is_ending(pod: &Value) -> bool {
    matches!(view::text(pod, &["status", "phase"]), "Succeeded" | "Failed")
        || view::at(pod, &["metadata", "deletionTimestamp"]).is_some()
}

/// Returns true if a pod is ready, which disruption budgets count as healthy.
pub fn is_ready(pod: &Value) -> bool {
    view::items(pod, &["status", "conditions"]).iter().any(|condition| {
        view::text(condition, &["type"]) == "Ready" && view::text(condition, &["status"]) == "True"
    })
}

/// Adds the condition `DisruptionTarget` to an evicted pod; `now` is its formatted transition time.
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
    fn budgets_apply_to_running_pods_only() {
        let pod = |phase: &str| json!({"status": {"phase": phase}});
        assert!(!can_ignore_budgets(&pod("Running")) && !can_ignore_budgets(&json!({})));
        assert!(can_ignore_budgets(&pod("Pending")) && !is_ending(&pod("Pending")));
        assert!(can_ignore_budgets(&pod("Failed")) && is_ending(&pod("Failed")));
        assert!(is_ending(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})));
    }

    #[test]
    fn disruption_target_condition_is_set_once() {
        let mut pod = json!({});
        mark_as_target(&mut pod, "2026-01-01T00:00:00Z");
        mark_as_target(&mut pod, "2026-01-02T00:00:00Z");
        let conditions = view::items(&pod, &["status", "conditions"]);
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert!(!is_ready(&pod));
    }
}
