//! What is decided about budgets, case by case.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;
use serde_json::{Value, json};

use super::object::Budget;
use super::plan::{Expected, Plan, expected, fail_safe, needs_scale, plan};
use super::{shown, status_patch};
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
fn what_is_expected_follows_from_the_spec() {
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
fn healthy_pods_above_what_is_wanted_can_be_spared() {
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
fn the_condition_says_whether_pods_can_be_spared() {
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
fn a_pod_that_was_let_go_does_not_count_until_it_should_be_gone() {
    let disrupted = |seconds: u64| {
        let since = rfc3339(NOW - Duration::from_secs(seconds));
        budget(json!({}), json!({"disruptedPods": {"p0": since, "gone": since}}))
    };
    let expected = Expected { pods: 2, healthy: 1 };
    let going = plan(&disrupted(100), &ready(2), expected, NOW);
    assert_eq!(counts(&going), (2, 1, 1, 0));
    assert_eq!(going.status.disrupted_pods.len(), 1, "one that is not there is forgotten");
    assert_eq!(going.after.unwrap().as_secs(), 20);
    let stayed = plan(&disrupted(121), &ready(2), expected, NOW);
    assert_eq!((counts(&stayed), stayed.stayed.len()), ((2, 1, 2, 1), 1));
    assert!(stayed.status.disrupted_pods.is_empty() && stayed.after.is_none());
    let seen = plan(&disrupted(100), &[pod("p0", true, true)], expected, NOW);
    assert!(seen.status.disrupted_pods.is_empty(), "it is seen to go");
}

#[test]
fn nobody_goes_while_nothing_can_be_counted() {
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
fn what_is_no_longer_so_is_taken_from_the_status() {
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
fn selectors_are_shown_as_go_does() {
    let selector = json!({
        "matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]}],
    });
    let budget = budget(json!({"selector": selector}), json!({}));
    let expected = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:c,Operator:In,Values:[d e],},},}";
    assert_eq!(shown(budget.spec.selector.written.as_ref()), expected);
}
