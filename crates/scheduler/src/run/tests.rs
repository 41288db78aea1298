//! Handling of informer events for pods.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::{ManualClock, Rng, Timestamp};
use coracle_runtime::{Change, ClusterId, ObjectKey};
use serde_json::json;

use super::cluster::{Cluster, SchedulerShared};
use super::message::Message;
use crate::cycle::{Outcome, Trace, schedule};
use crate::fixture::{merged, node, placed, pod, profile, wanting};
use crate::framework::WaitingPods;
use crate::queue::{Backoff, PrioritySort};
use crate::view::{Node, Pod};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const LATER: Timestamp = Timestamp::from_millis(1_100_000);

struct Harness {
    cluster: Cluster,
}

impl Harness {
    fn new() -> Self {
        let second = Duration::from_secs(1);
        let backoff = Backoff { initial: second, max: 10 * second, parked_at_most: 300 * second };
        let shared = SchedulerShared {
            profiles: vec![profile()],
            sort: Arc::new(PrioritySort),
            backoff,
            waiting: WaitingPods::default(),
            metrics: crate::fixture::metrics(),
            clock: ManualClock::starting_at(NOW).clock(),
            gated: Default::default(),
        };
        Self { cluster: Cluster::new(ClusterId::default(), Arc::new(shared), Rng::seeded(1)) }
    }

    fn pod(&mut self, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>) {
        let pod = old.or(new).unwrap();
        let key = ObjectKey::namespaced(ClusterId::default(), "ns", &*pod.metadata.name);
        let change = Change { key, old: old.cloned(), new: new.cloned() };
        self.cluster.handle(Message::Pod(change), LATER);
    }

    fn node(&mut self, old: Option<&Arc<Node>>, new: Option<&Arc<Node>>) {
        let key = ObjectKey::cluster_wide(ClusterId::default(), &*old.or(new).unwrap().metadata.name);
        let change = Change { key, old: old.cloned(), new: new.cloned() };
        self.cluster.handle(Message::Node(change), LATER);
    }

    /// Runs a scheduling cycle for the next pod and parks it if it is rejected. Returns its name and its
    /// node.
    fn attempt(&mut self) -> Option<(String, Option<String>)> {
        let popped = self.cluster.queue.pop(NOW)?;
        let (name, uid) = (popped.pod.metadata.name.to_string(), &popped.pod.metadata.uid);
        let shared = Arc::clone(&self.cluster.shared);
        let Cluster { state, cycle_state, queue, .. } = &mut self.cluster;
        match schedule(
            &shared.profiles[popped.profile],
            state,
            &popped.pod,
            cycle_state,
            &mut Trace::default(),
        ) {
            Outcome::Fits(node) => {
                state.cache.assume(Arc::new(popped.pod.on_node(&node)));
                Some((name, Some(node.into())))
            }
            Outcome::Refused(diagnosis, _) => {
                queue.refused(uid, diagnosis.plugins, diagnosis.pending, NOW);
                Some((name, None))
            }
            Outcome::NoNodes => {
                queue.refused(uid, Default::default(), Default::default(), NOW);
                Some((name, None))
            }
            Outcome::Failed(message) => panic!("{message}"),
        }
    }
}

#[test]
fn pod_is_retried_when_a_suitable_node_is_added() {
    let mut harness = Harness::new();
    let large = pod("large", json!({"spec": wanting("3")}));
    harness.pod(None, Some(&large));
    assert_eq!(harness.attempt(), Some(("large".to_owned(), None)), "the cluster has no nodes");
    let small = node("small", json!({"status": {"allocatable": {"cpu": "2"}}}));
    harness.node(None, Some(&small));
    assert_eq!(
        harness.attempt(),
        Some(("large".to_owned(), None)),
        "any node event retries a pod without nodes"
    );
    harness.node(None, Some(&node("other", json!({"status": {"allocatable": {"cpu": "1"}}}))));
    assert_eq!(harness.attempt(), None, "the node is too small");
    harness.node(Some(&small), Some(&node("small", json!({}))));
    assert_eq!(harness.attempt(), Some(("large".to_owned(), Some("small".to_owned()))));
}

#[test]
fn deleted_pod_makes_a_parked_pod_schedulable() {
    let mut harness = Harness::new();
    harness.node(None, Some(&node("n", json!({}))));
    let first = placed("first", "n", json!({"spec": wanting("3")}));
    harness.pod(None, Some(&first));
    harness.pod(None, Some(&pod("second", json!({"spec": wanting("2")}))));
    assert_eq!(harness.attempt(), Some(("second".to_owned(), None)));
    let heartbeat =
        placed("first", "n", merged(json!({"spec": wanting("3")}), json!({"metadata": {"generation": 2}})));
    harness.pod(Some(&first), Some(&heartbeat));
    assert_eq!(harness.attempt(), None);
    harness.pod(Some(&heartbeat), None);
    assert_eq!(harness.attempt(), Some(("second".to_owned(), Some("n".to_owned()))));
}

#[test]
fn assumption_is_confirmed_by_the_server_and_dropped_on_deletion() {
    let mut harness = Harness::new();
    harness.node(None, Some(&node("n", json!({}))));
    let (one, two) = (pod("one", json!({"spec": wanting("1")})), pod("two", json!({"spec": wanting("1")})));
    harness.pod(None, Some(&one));
    harness.pod(None, Some(&two));
    harness.attempt().unwrap();
    harness.attempt().unwrap();
    harness.pod(Some(&one), Some(&placed("one", "n", json!({"spec": wanting("1")}))));
    assert!(!harness.cluster.state.cache.is_assumed("one"));
    harness.pod(Some(&two), None);
    assert_eq!(harness.cluster.state.cache.find("n").unwrap().pods.len(), 1);
    assert!(harness.cluster.queue.get("two").is_none());
}

#[test]
fn gated_pods_and_pods_of_other_schedulers_are_not_scheduled() {
    let mut harness = Harness::new();
    harness.node(None, Some(&node("n", json!({}))));
    harness.pod(None, Some(&pod("other", json!({"spec": {"schedulerName": "mine"}}))));
    let gated = pod("gated", json!({"spec": {"schedulingGates": [{"name": "g"}]}}));
    harness.pod(None, Some(&gated));
    assert_eq!(harness.attempt(), None);
    harness.pod(Some(&gated), Some(&pod("gated", json!({}))));
    assert_eq!(harness.attempt(), Some(("gated".to_owned(), Some("n".to_owned()))));
}

#[test]
fn recreated_pod_of_the_same_name_replaces_the_old_one() {
    let mut harness = Harness::new();
    harness.node(None, Some(&node("n", json!({}))));
    let old = placed("p", "n", json!({"metadata": {"uid": "old"}}));
    harness.pod(None, Some(&old));
    harness.pod(Some(&old), Some(&pod("p", json!({"metadata": {"uid": "new"}}))));
    assert!(harness.cluster.state.cache.pod("old").is_none());
    assert_eq!(harness.attempt(), Some(("p".to_owned(), Some("n".to_owned()))));
}

#[test]
fn nomination_is_kept_until_the_server_has_it() {
    let mut harness = Harness::new();
    let waiting = pod("p", json!({}));
    harness.pod(None, Some(&waiting));
    harness.cluster.state.nominated.set(&waiting, "n");
    let labelled = pod("p", json!({"metadata": {"labels": {"a": "b"}}}));
    harness.pod(Some(&waiting), Some(&labelled));
    assert_eq!(harness.cluster.state.nominated.node_of("p"), Some("n"));
    let promised = pod("p", json!({"status": {"nominatedNodeName": "n"}}));
    harness.pod(Some(&labelled), Some(&promised));
    harness.pod(Some(&promised), Some(&labelled));
    assert_eq!(harness.cluster.state.nominated.node_of("p"), None);
}
