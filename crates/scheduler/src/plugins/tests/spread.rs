//! Topology spread, with the cases of kube-scheduler's tests.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::fixture::{merged, node, placed, pod, refusals, scores, world, zoned};
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
fn hard_constraints_refuse_what_is_too_uneven() {
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
        let mut world = world(&nodes(), &pods(counts));
        let answers = refusals("PodTopologySpread", &mut world, &spreading(constraints.clone()));
        let order: Vec<_> = world.cache.known_order().to_vec();
        let name = |index| world.cache.info(index).node.as_ref().unwrap().metadata.name.to_string();
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
fn nodes_without_the_label_are_out_of_the_question() {
    let mut world = world(&[zoned("a", "zone1"), node("n", json!({}))], &[]);
    let pod = spreading(json!([constraint(1, "zone", "DoNotSchedule")]));
    let mut answers = refusals("PodTopologySpread", &mut world, &pod);
    answers.sort();
    assert_eq!(answers, ["", NO_LABEL]);
    let nowhere = spreading(json!([constraint(1, "rack", "DoNotSchedule")]));
    assert_eq!(refusals("PodTopologySpread", &mut world, &nowhere), [NO_LABEL, NO_LABEL]);
}

#[test]
fn fewer_domains_than_wanted_count_as_one_that_is_empty() {
    let mut world = world(&nodes(), &pods([1, 0, 1, 0]));
    let with = |least: i64| {
        spreading(json!([merged(constraint(1, "zone", "DoNotSchedule"), json!({"minDomains": least}))]))
    };
    assert_eq!(refusals("PodTopologySpread", &mut world, &with(2)), [""; 4]);
    assert_eq!(refusals("PodTopologySpread", &mut world, &with(3)), [UNEVEN; 4]);
}

#[test]
fn nodes_the_pod_cannot_run_on_do_not_count_unless_it_says_so() {
    // There are no pods in zone 2, but the pod selects zone 1.
    let mut world = world(&nodes(), &pods([1, 1, 0, 0]));
    let in_zone_1 = |policy: Value| {
        let constraint = merged(constraint(1, "zone", "DoNotSchedule"), policy);
        pod(
            "p",
            json!({"metadata": {"labels": {"foo": ""}}, "spec": {
            "nodeSelector": {"zone": "zone1"}, "topologySpreadConstraints": [constraint]}}),
        )
    };
    let honoured = refusals("PodTopologySpread", &mut world, &in_zone_1(json!({})));
    assert_eq!(honoured.iter().filter(|answer| answer.is_empty()).count(), 4);
    let ignored =
        refusals("PodTopologySpread", &mut world, &in_zone_1(json!({"nodeAffinityPolicy": "Ignore"})));
    assert_eq!(ignored.iter().filter(|answer| answer.is_empty()).count(), 2, "zone 2 is emptier");
}

#[test]
fn others_and_those_who_go_do_not_count() {
    let other_namespace =
        placed("o", "a", json!({"metadata": {"namespace": "other", "labels": {"foo": ""}}}));
    let going = placed(
        "g",
        "b",
        json!({"metadata": {"labels": {"foo": ""}, "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    );
    let mut world = world(&nodes(), &[other_namespace, going]);
    let pod = spreading(json!([constraint(1, "kubernetes.io/hostname", "DoNotSchedule")]));
    assert_eq!(refusals("PodTopologySpread", &mut world, &pod), [""; 4]);
}

#[test]
fn soft_constraints_prefer_where_fewer_are() {
    let mut world = world(&nodes(), &pods([2, 1, 0, 0]));
    let pod = spreading(json!([constraint(1, "kubernetes.io/hostname", "ScheduleAnyway")]));
    let by_name = |world: &mut crate::world::World, scores: Vec<i64>| {
        let order = world.cache.order().to_vec();
        let mut named: Vec<_> = order
            .into_iter()
            .zip(scores)
            .map(|(index, score)| {
                (world.cache.info(index).node.as_ref().unwrap().metadata.name.to_string(), score)
            })
            .collect();
        named.sort();
        named.into_iter().map(|(_, score)| score).collect::<Vec<_>>()
    };
    let given = scores("PodTopologySpread", &mut world, &pod).unwrap();
    assert_eq!(by_name(&mut world, given), [0, 50, 100, 100]);
    let pod = spreading(json!([constraint(1, "zone", "ScheduleAnyway")]));
    let given = scores("PodTopologySpread", &mut world, &pod).unwrap();
    assert_eq!(by_name(&mut world, given), [0, 0, 100, 100]);
}

#[test]
fn pods_of_a_replica_set_are_spread_without_asking_for_it() {
    let owned = |name: &str| {
        json!({"metadata": {"name": name, "uid": name, "labels": {"foo": ""}, "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": true}]}})
    };
    let mut world = world(&nodes(), &[placed("q", "a", owned("q"))]);
    assert_eq!(scores("PodTopologySpread", &mut world, &pod("p", owned("p"))), None, "nobody knows that set");
    let set: BySelector = serde_json::from_value(json!({
        "metadata": {"name": "rs", "namespace": "ns"}, "spec": {"selector": {"matchLabels": {"foo": ""}}}}))
    .unwrap();
    world.workloads.replica_sets.insert(("ns".into(), "rs".into()), Arc::new(set));
    let scores = scores("PodTopologySpread", &mut world, &pod("p", owned("p"))).unwrap();
    assert_eq!(scores.iter().filter(|score| **score < 100).count(), 1, "{scores:?}");
    assert_eq!(
        refusals("PodTopologySpread", &mut world, &pod("p", owned("p"))),
        [""; 4],
        "it is only a wish"
    );
}
