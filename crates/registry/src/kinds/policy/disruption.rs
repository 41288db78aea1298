//! Decides whether a PodDisruptionBudget allows an eviction, and records the eviction in its status.

use coracle_meta::selector::LabelSelector;
use serde_json::{Value, json};

use crate::view;

/// Maximum number of evicted pods whose deletion has not been observed yet. Beyond it evictions are rejected, because
/// the disruption controller, which counts the pods, lags.
const MAX_DISRUPTED_PODS: usize = 2000;

const ALLOWED: &str = "DisruptionAllowed";

/// Reason why a pod may not be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisruptionError {
    /// The status is not about the current spec; the client should retry.
    Unprocessed(String),
    /// The status is invalid, or too many evictions are in progress.
    Forbidden(&'static str),
    /// The budget allows no further disruptions.
    Exhausted(String),
}

/// Returns true if the selector of a budget matches a pod.
pub fn selects(budget: &Value, pod: &Value) -> bool {
    let Some(selector) = view::at(budget, &["spec", "selector"]) else { return false };
    let Ok(selector) = serde_json::from_value::<LabelSelector>(selector.clone()) else { return false };
    let Ok(selector) = selector.to_selector() else { return false };
    let none = serde_json::Map::new();
    let labels = view::at(pod, &["metadata", "labels"]).and_then(Value::as_object).unwrap_or(&none);
    selector.matches(labels)
}

/// Returns true if a pod that is not ready may be evicted without being counted.
pub fn lets_unready_go(budget: &Value) -> bool {
    let healthy = |field| view::integer(budget, &["status", field]).unwrap_or(0);
    view::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow"
        || healthy("currentHealthy") >= healthy("desiredHealthy") && healthy("desiredHealthy") > 0
}

/// Counts a pod that is about to be evicted in the status; `now` is the formatted time for it.
///
/// # Errors
/// If the budget does not allow the eviction.
pub fn disrupt(budget: &mut Value, pod: &str, now: &str) -> Result<(), DisruptionError> {
    let name = view::name(budget).to_owned();
    let number = |path: &[&str]| view::integer(budget, path).unwrap_or(0);
    if number(&["status", "observedGeneration"]) < number(&["metadata", "generation"]) {
        return Err(DisruptionError::Unprocessed(format!(
            "The disruption budget {name} is still being processed by the server."
        )));
    }
    let allowed = number(&["status", "disruptionsAllowed"]);
    if allowed < 0 {
        return Err(DisruptionError::Forbidden("pdb disruptions allowed is negative"));
    }
    if view::fields(budget, &["status", "disruptedPods"]).count() > MAX_DISRUPTED_PODS {
        return Err(DisruptionError::Forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        return Err(DisruptionError::Exhausted(exhausted_message(budget, &name)));
    }
    view::set_default(budget, "status", || json!({}));
    let status = &mut budget["status"];
    status["disruptionsAllowed"] = (allowed - 1).into();
    if allowed == 1 {
        set_exhausted_condition(status, now);
    }
    view::set_default(status, "disruptedPods", || json!({}));
    status["disruptedPods"][pod] = now.into();
    Ok(())
}

fn exhausted_message(budget: &Value, name: &str) -> String {
    let conditions = view::items(budget, &["status", "conditions"]);
    let condition = conditions.iter().find(|condition| view::text(condition, &["type"]) == ALLOWED);
    let refusal = condition.filter(|condition| {
        view::text(condition, &["status"]) == "False" && !view::text(condition, &["message"]).is_empty()
    });
    let part = |field| refusal.map_or("", |condition| view::text(condition, &[field]));
    let (reason, message) = (part("reason"), part("message"));
    let pods = |field| view::integer(budget, &["status", field]).unwrap_or(0);
    let (needs, has) = (pods("desiredHealthy"), pods("currentHealthy"));
    // Counts of a budget that failed to sync are meaningless.
    if reason == "SyncFailed" {
        format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        )
    } else if has <= needs {
        format!("The disruption budget {name} needs {needs} healthy pods and has {has} currently")
    } else if refusal.is_some() {
        format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    }
}

fn set_exhausted_condition(status: &mut Value, now: &str) {
    let mut condition = json!({
        "type": ALLOWED,
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "lastTransitionTime": now,
    });
    if let Some(observed) = status.get("observedGeneration") {
        condition["observedGeneration"] = observed.clone();
    }
    view::set_default(status, "conditions", || json!([]));
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    match conditions.iter_mut().find(|existing| view::text(existing, &["type"]) == ALLOWED) {
        Some(existing) => {
            if view::text(existing, &["status"]) == "False" {
                condition["lastTransitionTime"] =
                    existing.get("lastTransitionTime").cloned().unwrap_or_default();
            }
            *existing = condition;
        }
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn last_allowed_disruption_exhausts_the_budget() {
        let mut budget = json!({
            "metadata": {"name": "b", "generation": 1},
            "status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2}
        });
        assert_eq!(disrupt(&mut budget, "p", NOW), Ok(()));
        assert_eq!(budget["status"]["disruptionsAllowed"], 0);
        assert_eq!(budget["status"]["disruptedPods"], json!({"p": NOW}));
        assert_eq!(budget["status"]["conditions"][0]["reason"], "InsufficientPods");
        let again = disrupt(&mut budget, "q", NOW);
        let why = "The disruption budget b does not allow evicting pods currently";
        assert_eq!(again, Err(DisruptionError::Exhausted(why.to_owned())));
        budget["metadata"]["generation"] = 2.into();
        assert!(matches!(disrupt(&mut budget, "q", NOW), Err(DisruptionError::Unprocessed(_))));
    }

    #[test]
    fn exhausted_message_contains_the_known_reason() {
        let mut budget = json!({
            "metadata": {"name": "b"},
            "status": {"currentHealthy": 1, "desiredHealthy": 2}
        });
        let why = |budget: &Value| exhausted_message(budget, "b");
        assert_eq!(why(&budget), "The disruption budget b needs 2 healthy pods and has 1 currently");
        budget["status"]["conditions"] =
            json!([{"type": ALLOWED, "status": "False", "reason": "SyncFailed", "message": "why"}]);
        assert!(why(&budget).ends_with("because it failed sync: why"));
    }

    #[test]
    fn empty_selector_selects_all_and_absent_selector_none() {
        let pod = json!({"metadata": {"labels": {"a": "b"}}});
        assert!(selects(&json!({"spec": {"selector": {}}}), &pod));
        assert!(!selects(&json!({"spec": {}}), &pod));
        assert!(!selects(&json!({"spec": {"selector": {"matchLabels": {"a": "c"}}}}), &pod));
    }
}
