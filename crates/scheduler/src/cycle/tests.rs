//! Whole scheduling cycles.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::filter::nodes_to_find;
use super::*;
use crate::fixture::{cluster_state, cycle_state, decide, merged, node, placed, pod, profile, wanting};

#[test]
fn number_of_nodes_to_find_is_that_of_kube_scheduler() {
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
fn pod_is_scheduled_to_the_emptier_node() {
    let busy = placed("busy", "n1", json!({"spec": wanting("3")}));
    let mut state = cluster_state(&[node("n1", json!({})), node("n2", json!({}))], &[busy]);
    assert_eq!(decide(&mut state, &pod("p", json!({"spec": wanting("1")}))), Ok("n2".to_owned()));
}

#[test]
fn successive_cycles_examine_all_nodes() {
    let nodes: Vec<_> = (0..200).map(|number| node(&format!("n{number}"), json!({}))).collect();
    let mut state = cluster_state(&nodes, &[]);
    let (profile, mut cycle_state) = (profile(), cycle_state());
    let mut counts = BTreeMap::new();
    for number in 0..400 {
        let pod = pod(&format!("p{number}"), json!({"spec": wanting("100m")}));
        let Outcome::Fits(node) =
            schedule(&profile, &mut state, &pod, &mut cycle_state, &mut Trace::default())
        else {
            panic!("it fits")
        };
        *counts.entry(node.to_string()).or_insert(0) += 1;
        state.cache.assume(Arc::new(pod.on_node(&node)));
    }
    assert_eq!(counts.len(), 200);
    assert!(counts.values().all(|count| *count == 2), "{counts:?}");
}

#[test]
fn unschedulable_pod_gets_a_diagnosis() {
    let nodes = [
        node("n1", json!({"spec": {"unschedulable": true}})),
        node("n2", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})),
        node("n3", json!({})),
        node("n4", json!({})),
    ];
    let mut state = cluster_state(&nodes, &[]);
    let pod = pod("p", json!({"spec": wanting("5")}));
    assert_eq!(
        decide(&mut state, &pod),
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
        decide(&mut state, &crate::fixture::pod("p", named)),
        Err("0/4 nodes are available: 1 node(s) were unschedulable, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. \
             preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
            .to_owned())
    );
    assert_eq!(decide(&mut ClusterState::default(), &pod), Err("no nodes".to_owned()));
}

#[test]
fn nominated_node_is_reserved_against_lower_priority() {
    let mut state = cluster_state(&[node("n1", json!({}))], &[]);
    let important = pod("important", json!({"spec": merged(wanting("3"), json!({"priority": 10}))}));
    state.nominated.set(&important, "n1");
    let other = pod("other", json!({"spec": wanting("2")}));
    assert!(
        decide(&mut state, &other).unwrap_err().starts_with("0/1 nodes are available: 1 Insufficient cpu.")
    );
    let more_important = pod("boss", json!({"spec": merged(wanting("2"), json!({"priority": 11}))}));
    assert_eq!(decide(&mut state, &more_important), Ok("n1".to_owned()));
    assert_eq!(decide(&mut state, &important), Ok("n1".to_owned()));
}
