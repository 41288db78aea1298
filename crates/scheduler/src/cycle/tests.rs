//! Whole scheduling cycles.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::filter::nodes_to_find;
use super::*;
use crate::fixture::{decide, merged, node, placed, pod, profile, turns, wanting, world};

#[test]
fn so_many_nodes_are_compared_as_upstream_compares() {
    for (nodes, percentage, expected) in [
        (10, 0, 10),
        (99, 0, 99),
        (100, 0, 100),
        (1000, 0, 420),
        (5000, 0, 500),
        (6000, 0, 300),
        (1000, 40, 400),
        (1000, 1, 100),
    ] {
        assert_eq!(nodes_to_find(nodes, percentage), expected, "{nodes} nodes, {percentage} %");
    }
}

#[test]
fn a_pod_goes_to_the_emptier_node() {
    let busy = placed("busy", "n1", json!({"spec": wanting("3")}));
    let mut world = world(&[node("n1", json!({})), node("n2", json!({}))], &[busy]);
    assert_eq!(decide(&mut world, &pod("p", json!({"spec": wanting("1")}))), Ok("n2".to_owned()));
}

#[test]
fn all_nodes_have_their_turn() {
    let nodes: Vec<_> = (0..200).map(|number| node(&format!("n{number}"), json!({}))).collect();
    let mut world = world(&nodes, &[]);
    let (profile, mut turns) = (profile(), turns());
    let mut counts = BTreeMap::new();
    for number in 0..400 {
        let pod = pod(&format!("p{number}"), json!({"spec": wanting("100m")}));
        let Outcome::Fits(node) = schedule(&profile, &mut world, &pod, &mut turns, &mut Trace::default())
        else {
            panic!("it fits")
        };
        *counts.entry(node.to_string()).or_insert(0) += 1;
        world.cache.assume(Arc::new(pod.on_node(&node)));
    }
    assert_eq!(counts.len(), 200);
    assert!(counts.values().all(|count| *count == 2), "{counts:?}");
}

#[test]
fn people_are_told_why_no_node_is_for_a_pod() {
    let nodes = [
        node("n1", json!({"spec": {"unschedulable": true}})),
        node("n2", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})),
        node("n3", json!({})),
        node("n4", json!({})),
    ];
    let mut world = world(&nodes, &[]);
    let pod = pod("p", json!({"spec": wanting("5")}));
    assert_eq!(
        decide(&mut world, &pod),
        Err("0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, \
             2 Insufficient cpu. preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
            .to_owned())
    );
    let named = merged(
        json!({"spec": wanting("1")}),
        json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}}}}),
    );
    assert_eq!(
        decide(&mut world, &crate::fixture::pod("p", named)),
        Err("0/4 nodes are available: 1 node(s) were unschedulable, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. \
             preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
            .to_owned())
    );
    assert_eq!(decide(&mut World::default(), &pod), Err("no nodes".to_owned()));
}

#[test]
fn a_promised_node_is_kept_for_whom_it_was_promised() {
    let mut world = world(&[node("n1", json!({}))], &[]);
    let important = pod("important", json!({"spec": merged(wanting("3"), json!({"priority": 10}))}));
    world.nominated.set(&important, "n1");
    let other = pod("other", json!({"spec": wanting("2")}));
    assert!(
        decide(&mut world, &other).unwrap_err().starts_with("0/1 nodes are available: 1 Insufficient cpu.")
    );
    let more_important = pod("boss", json!({"spec": merged(wanting("2"), json!({"priority": 11}))}));
    assert_eq!(decide(&mut world, &more_important), Ok("n1".to_owned()));
    assert_eq!(decide(&mut world, &important), Ok("n1".to_owned()));
}
