//! Order in which surplus pods are deleted.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::sync::Arc;

use coracle_base::Timestamp;

use crate::view::{Phase, Pod};

/// Annotation with the cost of deleting a pod; among otherwise equal pods lower costs are deleted first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sort key of the deletion order, most significant field first: lower ranks are deleted first.
///
/// Times count by their order of magnitude only, and ties are broken by uid, so that the youngest pods of a
/// generation are not always deleted. Kubernetes compares uids before restarts if only the exact times differ, which
/// is not a consistent order: three pods can form a cycle.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    is_assigned: bool,
    phase: u8,
    is_ready: bool,
    deletion_cost: i32,
    /// Number of related pods on the same node.
    colocated: Reverse<usize>,
    ready_for: Option<i64>,
    restarts: Reverse<(i32, i32)>,
    age: i64,
    uid: &'a str,
}

/// Sorts pods in the order of deletion. `related` are all pods that should be spread over nodes.
pub(crate) fn deletion_order(pods: &mut [Arc<Pod>], related: &[Arc<Pod>], now: Timestamp) {
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in related.iter().filter(|pod| pod.is_active()) {
        *on_node.entry(&pod.spec.node_name).or_default() += 1;
    }
    let colocated = |pod: &Pod| on_node.get(&*pod.spec.node_name).copied().unwrap_or_default();
    pods.sort_by(|one, other| compare(one, colocated(one), other, colocated(other), now));
}

fn compare(one: &Pod, near_one: usize, other: &Pod, near_other: usize, now: Timestamp) -> Ordering {
    rank(one, near_one, now).cmp(&rank(other, near_other, now))
}

fn rank(pod: &Pod, colocated: usize, now: Timestamp) -> Rank<'_> {
    let is_ready = pod.is_ready();
    let since = pod.condition("Ready").and_then(|ready| ready.last_transition_time);
    Rank {
        is_assigned: !pod.spec.node_name.is_empty(),
        phase: match pod.status.phase {
            Phase::Pending => 0,
            Phase::Unknown => 1,
            _ => 2,
        },
        is_ready,
        deletion_cost: deletion_cost(pod),
        colocated: Reverse(colocated),
        ready_for: since.filter(|_| is_ready).map(|since| magnitude(since, now)),
        restarts: Reverse(restarts(pod)),
        age: magnitude(pod.metadata.creation_timestamp, now),
        uid: pod.metadata.uid(),
    }
}

/// Order of magnitude of the time since then.
fn magnitude(since: Timestamp, now: Timestamp) -> i64 {
    now.since(since).as_nanos().checked_ilog2().map_or(-1, i64::from)
}

/// An invalid number counts as zero.
fn deletion_cost(pod: &Pod) -> i32 {
    let Some(text) = pod.metadata.annotations.get(DELETION_COST) else { return 0 };
    let is_plain = text == "0" || !text.starts_with(['0', '+']);
    text.parse().ok().filter(|_| is_plain).unwrap_or_default()
}

/// Maximum restarts of a container, and of a sidecar.
fn restarts(pod: &Pod) -> (i32, i32) {
    let of_containers = pod.status.container_statuses.iter().map(|status| status.restart_count).max();
    let is_sidecar = |name: &str| {
        let mut containers = pod.spec.init_containers.iter();
        containers.any(|container| *container.name == *name && &*container.restart_policy == "Always")
    };
    let sidecars = pod.status.init_container_statuses.iter().filter(|status| is_sidecar(&status.name));
    let of_sidecars = sidecars.map(|status| status.restart_count).max();
    (of_containers.unwrap_or_default(), of_sidecars.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::rfc3339;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

    fn pod(name: &str, change: Value) -> Arc<Pod> {
        let ready_s = change.get("ready_s").and_then(Value::as_u64);
        let ago = |seconds: u64| rfc3339(NOW - std::time::Duration::from_secs(seconds));
        let conditions: Vec<_> = ready_s
            .map(|seconds| json!({"type": "Ready", "status": "True", "lastTransitionTime": ago(seconds)}))
            .into_iter()
            .collect();
        let age_s = change.get("age_s").and_then(Value::as_u64).unwrap_or(100_000);
        let cost = change.get("cost").map(|cost| json!({DELETION_COST: cost})).unwrap_or_default();
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "uid": name, "creationTimestamp": ago(age_s), "annotations": cost},
                "spec": {"nodeName": change.get("node").unwrap_or(&json!("n1")),
                    "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]},
                "status": {
                    "phase": change.get("phase").unwrap_or(&json!("Running")), "conditions": conditions,
                    "containerStatuses": [{"name": "c", "restartCount": change.get("restarts").unwrap_or(&json!(0))}],
                    "initContainerStatuses": [
                        {"name": "s", "restartCount": change.get("sidecar").unwrap_or(&json!(0))},
                        {"name": "i", "restartCount": change.get("init").unwrap_or(&json!(0))},
                    ],
                },
            }))
            .unwrap(),
        )
    }

    #[test]
    fn deletion_order_ranks_least_useful_pods_first() {
        let ready = || json!({"ready_s": 10_000});
        let cases = [
            (json!({"node": "", "ready_s": 1}), ready(), "not on a node"),
            (json!({"phase": "Pending"}), json!({"phase": "Unknown"}), "pending before unknown"),
            (json!({"phase": "Unknown"}), json!({}), "unknown before running"),
            (json!({}), ready(), "not ready"),
            (json!({"ready_s": 90_000, "cost": "-1"}), ready(), "cheap"),
            (ready(), json!({"ready_s": 1, "cost": "1"}), "dear"),
            (json!({"ready_s": 10}), ready(), "ready for a shorter time"),
            (json!({"ready_s": 10_000, "restarts": 2}), ready(), "restarts"),
            (json!({"ready_s": 10_000, "sidecar": 2}), ready(), "restarts of a sidecar"),
            (json!({"ready_s": 10_000, "age_s": 10}), ready(), "young"),
        ];
        for (first, second, why) in cases {
            let (first, second) = (pod("z", first), pod("a", second));
            let mut pods = [Arc::clone(&second), Arc::clone(&first)];
            deletion_order(&mut pods, &[], NOW);
            assert_eq!(pods[0].metadata.name(), "z", "{why}");
        }
    }

    #[test]
    fn equal_magnitudes_are_equal_and_init_containers_do_not_count() {
        let pods =
            [json!({"ready_s": 9_000}), json!({"ready_s": 9_999}), json!({"ready_s": 9_500, "init": 7})];
        let names = ["b", "c", "a"];
        let mut pods: Vec<_> = names.iter().zip(pods).map(|(name, change)| pod(name, change)).collect();
        deletion_order(&mut pods, &[], NOW);
        let names: Vec<_> = pods.iter().map(|pod| pod.metadata.name()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn deletion_order_spreads_pods_over_nodes() {
        let on = |name: &str, node: &str| pod(name, json!({"node": node, "ready_s": 10_000}));
        let mut pods = [on("a", "n1"), on("b", "n2"), on("c", "n2")];
        let related = [pods.to_vec(), vec![on("d", "n1"), on("e", "n1")]].concat();
        deletion_order(&mut pods, &related, NOW);
        let names: Vec<_> = pods.iter().map(|pod| pod.metadata.name()).collect();
        assert_eq!(names, ["a", "b", "c"], "three on n1, two on n2");
        assert_eq!(deletion_cost(&pod("p", json!({"cost": "+1"}))), 0);
        assert_eq!(deletion_cost(&pod("p", json!({"cost": "007"}))), 0);
    }
}
