//! Topology spread, with the cases of kube-scheduler's tests.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::fixture::{cluster_state, merged, node, placed, pod, refusals, scores, zoned};
use crate::view::workload::BySelector;
use crate::view::{Node, Pod};

const UNEVEN: &str = "node(s) didn't match pod topology spread constraints";
const NO_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

fn constraint(skew: i64, key: &str, when: &str) -> Value {
    json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when,
           "labelSelector": {"matchExpressions": [{"key": "foo", "operator": "Exists"}]}})
}

fn spreading(constraints: Value) -> Arc<Pod> {
    pod("p", json!({"metadata": {"labels": {"foo": ""}}, "spec": {"topologySpreadConstraints": constraints}}))
}

fn foo(name: &str, node: &str) -> Arc<Pod> {
    placed(name, node, json!({"metadata": {"labels": {"foo": ""}}}))
}

fn nodes() -> [Arc<Node>; 4] {
    [zoned("a", "zone1"), zoned("b", "zone1"), zoned("x", "zone2"), zoned("y", "zone2")]
}

/// Creates this number of pods on each of a, b, x and y.
fn pods(counts: [usize; 4]) -> Vec<Arc<Pod>> {
    let names = ["a", "b", "x", "y"];
    let on = |(node, count): (&str, usize)| {
        (0..count).map(move |turn| foo(&format!("p-{node}{turn}"), node)).collect::<Vec<_>>()
    };
    names.into_iter().zip(counts).flat_map(on).collect()
}

#[test]
fn do_not_schedule_constraint_rejects_excessive_skew() {
    let zone = |skew| constraint(skew, "zone", "DoNotSchedule");
    let host = |skew| constraint(skew, "kubernetes.io/hostname", "DoNotSchedule");
    for (counts, constraints, fits) in [
        // No pods: all nodes fit.
        ([0, 0, 0, 0], json!([zone(1)]), "abxy"),
        // Two and one in the zones.
        ([1, 1, 1, 0], json!([zone(1)]), "xy"),
        ([1, 1, 1, 0], json!([zone(2)]), "abxy"),
        // By node: 2 1 0 3.
        ([2, 1, 0, 3], json!([host(1)]), "x"),
        ([2, 1, 0, 3], json!([host(2)]), "bx"),
        // Both: zones 3 3, nodes 2 1 0 3.
        ([2, 1, 0, 3], json!([zone(1), host(1)]), "x"),
        ([2, 1, 0, 3], json!([zone(1), host(2)]), "bx"),
        // The zone constraint allows x and y, the hostname constraint b.
        ([3, 0, 1, 1], json!([zone(1), host(1)]), ""),
    ] {
        let mut state = cluster_state(&nodes(), &pods(counts));
        let answers = refusals("PodTopologySpread", &mut state, &spreading(constraints.clone()));
        let order: Vec<_> = state.cache.cached_order().to_vec();
        let name = |index| state.cache.info(index).node.as_ref().unwrap().metadata.name.to_string();
        let mut fitting: Vec<_> = order
            .into_iter()
            .zip(&answers)
            .filter(|(_, answer)| answer.is_empty())
            .map(|(index, _)| name(index))
            .collect();
        fitting.sort();
        assert_eq!(fitting.concat(), fits, "{counts:?} {constraints}");
        assert!(answers.iter().all(|answer| answer.is_empty() || answer == UNEVEN));
    }
}

#[test]
fn node_without_the_topology_key_is_rejected() {
    let mut state = cluster_state(&[zoned("a", "zone1"), node("n", json!({}))], &[]);
    let pod = spreading(json!([constraint(1, "zone", "DoNotSchedule")]));
    let mut answers = refusals("PodTopologySpread", &mut state, &pod);
    answers.sort();
    assert_eq!(answers, ["", NO_LABEL]);
    let nowhere = spreading(json!([constraint(1, "rack", "DoNotSchedule")]));
    assert_eq!(refusals("PodTopologySpread", &mut state, &nowhere), [NO_LABEL, NO_LABEL]);
}

#[test]
fn missing_domains_count_as_empty() {
    let mut state = cluster_state(&nodes(), &pods([1, 0, 1, 0]));
    let with = |least: i64| {
        spreading(json!([merged(constraint(1, "zone", "DoNotSchedule"), json!({"minDomains": least}))]))
    };
    assert_eq!(refusals("PodTopologySpread", &mut state, &with(2)), [""; 4]);
    assert_eq!(refusals("PodTopologySpread", &mut state, &with(3)), [UNEVEN; 4]);
}

#[test]
fn unsuitable_nodes_count_with_the_ignore_policy_only() {
    // There are no pods in zone 2, but the pod selects zone 1.
    let mut state = cluster_state(&nodes(), &pods([1, 1, 0, 0]));
    let in_zone_1 = |policy: Value| {
        let constraint = merged(constraint(1, "zone", "DoNotSchedule"), policy);
        pod(
            "p",
            json!({"metadata": {"labels": {"foo": ""}}, "spec": {
            "nodeSelector": {"zone": "zone1"}, "topologySpreadConstraints": [constraint]}}),
        )
    };
    let honoured = refusals("PodTopologySpread", &mut state, &in_zone_1(json!({})));
    assert_eq!(honoured.iter().filter(|answer| answer.is_empty()).count(), 4);
    let ignored =
        refusals("PodTopologySpread", &mut state, &in_zone_1(json!({"nodeAffinityPolicy": "Ignore"})));
    assert_eq!(ignored.iter().filter(|answer| answer.is_empty()).count(), 2, "zone 2 is emptier");
}

#[test]
fn pods_of_other_namespaces_and_terminating_pods_do_not_count() {
    let other_namespace =
        placed("o", "a", json!({"metadata": {"namespace": "other", "labels": {"foo": ""}}}));
    let going = placed(
        "g",
        "b",
        json!({"metadata": {"labels": {"foo": ""}, "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    );
    let mut state = cluster_state(&nodes(), &[other_namespace, going]);
    let pod = spreading(json!([constraint(1, "kubernetes.io/hostname", "DoNotSchedule")]));
    assert_eq!(refusals("PodTopologySpread", &mut state, &pod), [""; 4]);
}

#[test]
fn schedule_anyway_constraint_prefers_emptier_domains() {
    let mut state = cluster_state(&nodes(), &pods([2, 1, 0, 0]));
    let pod = spreading(json!([constraint(1, "kubernetes.io/hostname", "ScheduleAnyway")]));
    let by_name = |state: &mut crate::cluster_state::ClusterState, scores: Vec<i64>| {
        let order = state.cache.order().to_vec();
        let mut named: Vec<_> = order
            .into_iter()
            .zip(scores)
            .map(|(index, score)| {
                (state.cache.info(index).node.as_ref().unwrap().metadata.name.to_string(), score)
            })
            .collect();
        named.sort();
        named.into_iter().map(|(_, score)| score).collect::<Vec<_>>()
    };
    let given = scores("PodTopologySpread", &mut state, &pod).unwrap();
    assert_eq!(by_name(&mut state, given), [0, 50, 100, 100]);
    let pod = spreading(json!([constraint(1, "zone", "ScheduleAnyway")]));
    let given = scores("PodTopologySpread", &mut state, &pod).unwrap();
    assert_eq!(by_name(&mut state, given), [0, 0, 100, 100]);
}

#[test]
fn pods_of_a_replica_set_are_spread_by_default() {
    let owned = |name: &str| {
        json!({"metadata": {"name": name, "uid": name, "labels": {"foo": ""}, "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": true}]}})
    };
    let mut state = cluster_state(&nodes(), &[placed("q", "a", owned("q"))]);
    assert_eq!(
        scores("PodTopologySpread", &mut state, &pod("p", owned("p"))),
        None,
        "the ReplicaSet is not cached"
    );
    let set: BySelector = serde_json::from_value(json!({
        "metadata": {"name": "rs", "namespace": "ns"}, "spec": {"selector": {"matchLabels": {"foo": ""}}}}))
    .unwrap();
    state.workloads.replica_sets.insert(("ns".into(), "rs".into()), Arc::new(set));
    let scores = scores("PodTopologySpread", &mut state, &pod("p", owned("p"))).unwrap();
    assert_eq!(scores.iter().filter(|score| **score < 100).count(), 1, "{scores:?}");
    assert_eq!(
        refusals("PodTopologySpread", &mut state, &pod("p", owned("p"))),
        [""; 4],
        "default constraints are ScheduleAnyway"
    );
}
