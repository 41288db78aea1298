//! Selection of victims and candidate nodes.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster_state::ClusterState;
use crate::cycle::{Outcome, Trace, schedule};
use crate::fixture::{cluster_state, cycle_state, merged, node, placed, pod, profile, wanting};
use crate::framework::{Nomination, PostFilter};
use crate::view::Pod;
use crate::view::workload::DisruptionBudget;

fn running(name: &str, on: &str, cpu: &str, priority: i32, more: Value) -> Arc<Pod> {
    let spec = json!({"spec": merged(wanting(cpu), json!({"priority": priority})),
                      "status": {"startTime": "2026-01-01T00:00:00Z"}});
    placed(name, on, merged(spec, more))
}

fn important(cpu: &str) -> Arc<Pod> {
    pod("important", json!({"spec": merged(wanting(cpu), json!({"priority": 100}))}))
}

fn preempt(state: &mut ClusterState, pod: &Arc<Pod>) -> (PostFilter, String) {
    match schedule(&profile(), state, pod, &mut cycle_state(), &mut Trace::default()) {
        Outcome::Refused(diagnosis, result) => (result, diagnosis.to_string()),
        other => panic!("{other:?}"),
    }
}

fn names(result: &PostFilter) -> Vec<&str> {
    result.victims.iter().map(|victim| &*victim.metadata.name).collect()
}

#[test]
fn fewest_victims_of_lowest_priority_are_selected() {
    let pods = [
        running("low", "n1", "2", 1, json!({})),
        running("mid", "n1", "1", 5, json!({})),
        running("high", "n1", "1", 200, json!({})),
    ];
    let mut state = cluster_state(&[node("n1", json!({}))], &pods);
    let (result, _) = preempt(&mut state, &important("2"));
    assert_eq!(names(&result), ["low"]);
    assert_eq!(result.nomination, Nomination::Node("n1".into()));
    let (result, _) = preempt(&mut state, &important("3"));
    assert_eq!(names(&result), ["mid", "low"]);
    let (result, diagnosis) = preempt(&mut state, &important("4"));
    assert!(result.victims.is_empty() && result.nomination == Nomination::Clear);
    assert_eq!(
        diagnosis,
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Insufficient cpu."
    );
}

#[test]
fn pod_without_lower_priority_pods_preempts_nothing() {
    let mut state = cluster_state(
        &[node("n1", json!({})), node("n2", json!({"spec": {"unschedulable": true}}))],
        &[running("equal", "n1", "4", 100, json!({}))],
    );
    let (_, diagnosis) = preempt(&mut state, &important("1"));
    assert_eq!(
        diagnosis,
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. preemption: 0/2 nodes are \
         available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    );
    let never = pod(
        "p",
        json!({"spec": merged(wanting("1"), json!({"priority": 100, "preemptionPolicy": "Never"}))}),
    );
    let (result, diagnosis) = preempt(&mut state, &never);
    assert!(diagnosis.ends_with(" preemption: not eligible due to preemptionPolicy=Never."));
    assert_eq!(result.nomination, Nomination::Keep);
}

#[test]
fn candidate_with_the_least_disruption_is_chosen() {
    let (n1, n2) = (node("n1", json!({})), node("n2", json!({})));
    let started_at = |time: &str| json!({"status": {"startTime": time}});
    let plain = || json!({});
    for (pods, expected) in [
        // Its highest victim priority is lower.
        (vec![running("a", "n1", "4", 5, plain()), running("b", "n2", "4", 1, plain())], "n2"),
        // Its sum of priorities is lower.
        (
            vec![
                running("a", "n1", "2", 5, plain()),
                running("a2", "n1", "2", 5, plain()),
                running("b", "n2", "2", 5, plain()),
                running("b2", "n2", "2", 1, plain()),
            ],
            "n2",
        ),
        // It has fewer victims.
        (
            vec![
                running("a", "n1", "2", 5, plain()),
                running("a2", "n1", "2", -5, plain()),
                running("b", "n2", "4", 5, plain()),
            ],
            "n2",
        ),
        // Its victims started later.
        (
            vec![
                running("a", "n1", "4", 5, started_at("2026-01-01T00:00:00Z")),
                running("b", "n2", "4", 5, started_at("2026-01-02T00:00:00Z")),
            ],
            "n2",
        ),
    ] {
        let mut state = cluster_state(&[Arc::clone(&n1), Arc::clone(&n2)], &pods);
        let (result, _) = preempt(&mut state, &important("4"));
        assert_eq!(result.nomination, Nomination::Node(expected.into()), "{:?}", names(&result));
    }
}

#[test]
fn protected_pods_are_evicted_last() {
    let labelled = json!({"metadata": {"labels": {"app": "db"}}});
    let budget: DisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "b", "namespace": "ns"}, "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0}}))
    .unwrap();
    let protected = |mut state: ClusterState| {
        state.workloads.budgets.insert(("ns".into(), "b".into()), Arc::new(budget.clone()));
        state
    };
    // On one node, the pod without a budget is evicted although its priority is higher.
    let pods = [running("db", "n1", "2", 1, labelled.clone()), running("web", "n1", "2", 5, json!({}))];
    let mut one = protected(cluster_state(&[node("n1", json!({}))], &pods));
    assert_eq!(names(&preempt(&mut one, &important("2")).0), ["web"]);
    // Of two nodes, the one without a budget violation is chosen.
    let pods = [running("db", "n1", "4", 1, labelled), running("web", "n2", "4", 5, json!({}))];
    let mut two = protected(cluster_state(&[node("n1", json!({})), node("n2", json!({}))], &pods));
    assert_eq!(names(&preempt(&mut two, &important("2")).0), ["web"]);
}

#[test]
fn pod_with_terminating_victims_preempts_no_more() {
    let going = json!({
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:30Z"},
        "status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}});
    let mut state = cluster_state(
        &[node("n1", json!({}))],
        &[running("going", "n1", "2", 1, going), running("staying", "n1", "2", 1, json!({}))],
    );
    let waiting = important("2");
    state.nominated.set(&waiting, "n1");
    let (result, diagnosis) = preempt(&mut state, &waiting);
    assert!(result.victims.is_empty());
    assert!(
        diagnosis.ends_with("preemption: not eligible due to a terminating pod on the nominated node."),
        "{diagnosis}"
    );
}

#[test]
fn preemption_simulates_affinity_and_spread() {
    // The pod has required anti-affinity with an existing one.
    let web = running("web", "n1", "1", 1, json!({"metadata": {"labels": {"app": "web"}}}));
    let away = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}});
    let mut state = cluster_state(&[node("n1", json!({}))], &[web, running("free", "n1", "1", 1, json!({}))]);
    let shy = pod("shy", json!({"spec": merged(wanting("1"), json!({"priority": 9, "affinity": away}))}));
    assert_eq!(names(&preempt(&mut state, &shy).0), ["web"]);
    let uneven = json!({"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    state.cache.set_node(&node("n2", json!({"spec": {"unschedulable": true}})));
    let even = pod(
        "even",
        json!({"metadata": {"labels": {"app": "web"}},
        "spec": merged(wanting("1"), json!({"priority": 9, "topologySpreadConstraints": [uneven]}))}),
    );
    assert_eq!(names(&preempt(&mut state, &even).0), ["web"]);
}
