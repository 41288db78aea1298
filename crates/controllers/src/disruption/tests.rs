//! Plans for budgets, case by case.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;
use serde_json::{Value, json};

use super::object::Budget;
use super::plan::{Expected, Plan, expected, fail_safe, needs_scale, plan};
use super::{format_selector, status_patch};
use crate::view::{Pod, rfc3339};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn budget(spec: Value, status: Value) -> Budget {
    let metadata = json!({"name": "b", "namespace": "n", "generation": 3, "resourceVersion": "7"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

fn pod(name: &str, ready: bool, deleted: bool) -> Arc<Pod> {
    let deletion = deleted.then(|| rfc3339(NOW));
    let conditions = json!([{"type": "Ready", "status": if ready { "True" } else { "False" }}]);
    let metadata = json!({"name": name, "deletionTimestamp": deletion});
    Arc::new(
        serde_json::from_value(json!({"metadata": metadata, "status": {"conditions": conditions}})).unwrap(),
    )
}

fn ready(count: usize) -> Vec<Arc<Pod>> {
    (0..count).map(|number| pod(&format!("p{number}"), true, false)).collect()
}

fn counts(plan: &Plan) -> (i32, i32, i32, i32) {
    let status = &plan.status;
    (status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed)
}

#[test]
fn expected_pods_follow_from_the_spec() {
    let of = |spec: Value| {
        let budget = budget(spec, json!({}));
        let expected = expected(&budget, 5, 7).unwrap();
        (needs_scale(&budget), expected.pods, expected.healthy)
    };
    assert_eq!(of(json!({"minAvailable": 3})), (false, 5, 3));
    assert_eq!(of(json!({"minAvailable": "50%"})), (true, 7, 4));
    assert_eq!(of(json!({"maxUnavailable": 2})), (true, 7, 5));
    assert_eq!(of(json!({"maxUnavailable": "30%"})), (true, 7, 4));
    assert_eq!(of(json!({"maxUnavailable": 9})), (true, 7, 0));
    assert_eq!(of(json!({})), (false, 0, 0));
    assert!(expected(&budget(json!({"minAvailable": "many"}), json!({})), 5, 7).is_err());
}

#[test]
fn healthy_pods_above_the_desired_number_are_allowed_disruptions() {
    let budget = budget(json!({}), json!({}));
    let of = |pods: &[Arc<Pod>], pods_expected, healthy| {
        plan(&budget, pods, Expected { pods: pods_expected, healthy }, NOW)
    };
    assert_eq!(counts(&of(&ready(3), 3, 2)), (3, 2, 3, 1));
    assert_eq!(counts(&of(&ready(1), 3, 2)), (3, 2, 1, 0));
    assert_eq!(counts(&of(&ready(1), 0, 0)), (0, 0, 1, 0), "nothing is expected");
    let mixed = [pod("a", true, false), pod("b", false, false), pod("c", true, true)];
    assert_eq!(counts(&of(&mixed, 3, 0)), (3, 0, 1, 1));
}

#[test]
fn condition_reports_allowed_disruptions() {
    let first = plan(&budget(json!({}), json!({})), &ready(2), Expected { pods: 2, healthy: 1 }, NOW);
    let condition = &first.status.conditions[0];
    assert_eq!((&*condition.status, &*condition.reason), ("True", "SufficientPods"));
    assert_eq!((condition.observed_generation, condition.last_transition_time), (Some(3), Some(NOW)));
    assert_eq!(first.status.observed_generation, 3);

    let mut known = budget(json!({}), json!({}));
    known.status = first.status.clone();
    let later = NOW + Duration::from_secs(60);
    let same = plan(&known, &ready(2), Expected { pods: 2, healthy: 1 }, later);
    assert_eq!(same.status, first.status, "nothing to write");
    let fewer = plan(&known, &ready(1), Expected { pods: 2, healthy: 1 }, later);
    let condition = &fewer.status.conditions[0];
    assert_eq!((&*condition.status, &*condition.reason), ("False", "InsufficientPods"));
    assert_eq!(condition.last_transition_time, Some(later));
}

#[test]
fn disrupted_pod_does_not_count_until_the_timeout() {
    let disrupted = |seconds: u64| {
        let since = rfc3339(NOW - Duration::from_secs(seconds));
        budget(json!({}), json!({"disruptedPods": {"p0": since, "gone": since}}))
    };
    let expected = Expected { pods: 2, healthy: 1 };
    let terminating = plan(&disrupted(100), &ready(2), expected, NOW);
    assert_eq!(counts(&terminating), (2, 1, 1, 0));
    assert_eq!(terminating.status.disrupted_pods.len(), 1, "missing pods are removed");
    assert_eq!(terminating.after.unwrap().as_secs(), 20);
    let not_deleted = plan(&disrupted(121), &ready(2), expected, NOW);
    assert_eq!((counts(&not_deleted), not_deleted.not_deleted.len()), ((2, 1, 2, 1), 1));
    assert!(not_deleted.status.disrupted_pods.is_empty() && not_deleted.after.is_none());
    let seen = plan(&disrupted(100), &[pod("p0", true, true)], expected, NOW);
    assert!(seen.status.disrupted_pods.is_empty(), "the pod is terminating");
}

#[test]
fn failed_computation_allows_no_disruptions() {
    let known = json!({"disruptionsAllowed": 2, "currentHealthy": 3, "observedGeneration": 2});
    let status = fail_safe(&budget(json!({}), known), "found no controllers for pod \"p\"", NOW);
    assert_eq!((status.disruptions_allowed, status.current_healthy), (0, 3));
    let condition = &status.conditions[0];
    assert_eq!(
        (&*condition.reason, &*condition.message),
        ("SyncFailed", "found no controllers for pod \"p\"")
    );
}

#[test]
fn status_patch_removes_stale_disrupted_pods() {
    let known = json!({"disruptedPods": {"a": rfc3339(NOW), "b": rfc3339(NOW)}});
    let budget = budget(json!({}), known);
    let mut status = budget.status.clone();
    status.disrupted_pods.remove("a");
    let patch = status_patch(&budget, &status);
    assert_eq!(patch["metadata"], json!({"resourceVersion": "7"}));
    assert_eq!(patch["status"]["disruptedPods"], json!({"a": null, "b": rfc3339(NOW)}));
    assert_eq!(patch["status"]["expectedPods"], 0);
}

#[test]
fn selectors_format_as_in_go() {
    let selector = json!({
        "matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]}],
    });
    let budget = budget(json!({"selector": selector}), json!({}));
    let expected = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:c,Operator:In,Values:[d e],},},}";
    assert_eq!(format_selector(budget.spec.selector.written.as_ref()), expected);
}
