//! Resource requests and allocatable resources.

use serde_json::{Value, json};

use crate::fixture::{cluster_state, node, placed, pod, refusals, scores};

fn wanting(requests: Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}})
}

fn offering(allocatable: Value) -> Value {
    json!({"status": {"allocatable": allocatable}})
}

#[test]
fn node_with_insufficient_resources_rejects_the_pod() {
    let small = offering(
        json!({"cpu": "1", "memory": "20", "pods": "2", "ephemeral-storage": "20", "example.com/gpu": "2"}),
    );
    let taken = wanting(json!({"cpu": "600m", "memory": "15", "example.com/gpu": "1"}));
    let mut state = cluster_state(&[node("n", small)], &[placed("other", "n", taken)]);
    for (requests, expected) in [
        (json!({}), ""),
        (json!({"cpu": "400m", "memory": "5"}), ""),
        (json!({"cpu": "500m", "memory": "1"}), "Insufficient cpu"),
        (json!({"cpu": "100m", "memory": "6"}), "Insufficient memory"),
        (json!({"cpu": "500m", "memory": "6"}), "Insufficient cpu, Insufficient memory"),
        (json!({"ephemeral-storage": "21"}), "Insufficient ephemeral-storage"),
        (json!({"example.com/gpu": "1"}), ""),
        (json!({"example.com/gpu": "2"}), "Insufficient example.com/gpu"),
        (json!({"example.com/other": "1"}), "Insufficient example.com/other"),
        (json!({"example.com/other": "0"}), ""),
        (json!({"hugepages-2Mi": "4Mi"}), "Insufficient hugepages-2Mi"),
    ] {
        assert_eq!(
            refusals("NodeResourcesFit", &mut state, &pod("p", wanting(requests.clone()))),
            [expected],
            "{requests}"
        );
    }
    state.cache.set_pod(&placed("third", "n", json!({})));
    assert_eq!(refusals("NodeResourcesFit", &mut state, &pod("p", json!({}))), ["Too many pods"]);
}

#[test]
fn least_allocated_node_scores_highest() {
    let nodes = [
        node("n1", offering(json!({"cpu": "4", "memory": "10000", "pods": "9"}))),
        node("n2", offering(json!({"cpu": "6", "memory": "10000", "pods": "9"}))),
    ];
    let wanted = wanting(json!({"cpu": "3", "memory": "5000"}));
    let mut state = cluster_state(&nodes, &[]);
    // (4000 - 3000) / 4000 and (10000 - 5000) / 10000, and the same with six CPUs.
    assert_eq!(scores("NodeResourcesFit", &mut state, &pod("p", wanted)), Some(vec![37, 50]));
    let too_much = wanting(json!({"cpu": "100", "memory": "100000"}));
    assert_eq!(scores("NodeResourcesFit", &mut state, &pod("p", too_much)), Some(vec![0, 0]));
}

#[test]
fn balanced_node_scores_higher() {
    let nodes = [
        node("n1", offering(json!({"cpu": "10", "memory": "10000", "pods": "9"}))),
        node("n2", offering(json!({"cpu": "10", "memory": "10000", "pods": "9"}))),
    ];
    let much_memory = wanting(json!({"cpu": "0", "memory": "8000"}));
    let mut state = cluster_state(&nodes, &[placed("other", "n1", much_memory)]);
    let much_cpu = pod("p", wanting(json!({"cpu": "8", "memory": "0"})));
    // The balance rises from 60 to 100 on n1 and drops from 100 to 60 on the empty n2.
    assert_eq!(scores("NodeResourcesBalancedAllocation", &mut state, &much_cpu), Some(vec![95, 55]));
    assert_eq!(scores("NodeResourcesBalancedAllocation", &mut state, &pod("p", json!({}))), None);
}
