//! Permit plugins as seen by an embedding program.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coracle_base::{ManualClock, Rng, Timestamp};
use coracle_runtime::{Change, ClusterId, ObjectKey, Objects};
use http::{Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1 as core;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::attempt::{self, Tasks};
use super::binding;
use super::cluster::{Cluster, SchedulerShared};
use super::effects::{Effects, Finished};
use super::message::Message;
use crate::cluster_state::ClusterState;
use crate::config::{Config, PluginConfig, detached_handle};
use crate::cycle::Trace;
use crate::fixture::{merged, node, placed, pod, wanting};
use crate::framework::{About, ClusterEvent, Handle, Permit, Plugin, Rejection};
use crate::plugins::{self, Writers};
use crate::queue::{Backoff, PrioritySort};
use crate::view::Pod;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const SECOND: Duration = Duration::from_secs(1);

/// Permit plugin that lets pods with the label `gang` wait until that many members have a node.
struct Gang {
    handle: Handle,
    reserved: Arc<Mutex<Vec<String>>>,
}

impl Plugin for Gang {
    fn name(&self) -> &'static str {
        "Gang"
    }

    fn reserve(&self, _state: &mut ClusterState, pod: &Arc<Pod>, node: &str) -> Result<(), Rejection> {
        self.reserved.lock().unwrap().push(format!("{} on {node}", pod.name()));
        Ok(())
    }

    fn unreserve(&self, _state: &mut ClusterState, pod: &Pod, _node: &str) {
        let own = format!("{} on", pod.name());
        self.reserved.lock().unwrap().retain(|reserved| !reserved.starts_with(&own));
    }

    fn permit(&self, state: &ClusterState, pod: &Arc<Pod>, _node: &str) -> Permit {
        match pod.labels().get("gang") {
            None => Permit::Allow,
            Some("broken") => Permit::Reject(Rejection::error("the list of members is gone")),
            Some("closed") => Permit::Reject(Rejection::resolvable("the gang is closed")),
            Some(size) => {
                let waiting = self.handle.waiting_pods().list(state.cluster());
                if waiting.len() + 1 < size.parse().unwrap() {
                    return Permit::Wait(30 * SECOND);
                }
                waiting.iter().for_each(|member| member.allow(self.name()));
                Permit::Allow
            }
        }
    }

    fn wants(&self, about: About) -> bool {
        matches!(about, About::Node)
    }

    fn hint(&self, _state: &ClusterState, _pod: &Pod, event: &ClusterEvent) -> bool {
        matches!(event, ClusterEvent::NodeAdded(_))
    }
}

/// A scheduler with an API server that accepts every request.
struct Harness {
    cluster: Cluster,
    effects: Effects,
    handle: Handle,
    reserved: Arc<Mutex<Vec<String>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Harness {
    fn new() -> Self {
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let reserved = Arc::<Mutex<Vec<String>>>::default();
        let pods = Objects::of::<core::Pod>(&server(&requests));
        let clock = ManualClock::starting_at(NOW).clock();
        let handle = detached_handle();
        let mut config = Config::default();
        let of_plugin = Arc::clone(&reserved);
        config.registry.add("Gang", move |context| {
            Ok(Arc::new(Gang { handle: context.handle(), reserved: Arc::clone(&of_plugin) }))
        });
        config.profiles[0].enabled.push(PluginConfig::new("Gang"));
        let writers = Writers { pods: Some(pods.clone()), volumes: None };
        let profile =
            plugins::profile(&config.profiles[0], &config.registry, &writers, &handle, None).unwrap();
        let shared = SchedulerShared {
            profiles: vec![profile],
            sort: Arc::new(PrioritySort),
            backoff: Backoff { initial: SECOND, max: 10 * SECOND, parked_at_most: 300 * SECOND },
            waiting: handle.waiting_pods().clone(),
            metrics: crate::fixture::metrics(),
            clock: clock.clone(),
            gated: Default::default(),
        };
        let cluster = Cluster::new(ClusterId::default(), Arc::new(shared), Rng::seeded(1));
        let effects = Effects { pods, recorders: HashMap::new(), clock };
        let mut harness = Self { cluster, effects, handle, reserved, requests };
        harness.node("n");
        harness
    }

    fn node(&mut self, name: &str) {
        let key = ObjectKey::cluster_wide(ClusterId::default(), name);
        let change = Change { key, old: None, new: Some(node(name, json!({}))) };
        self.cluster.handle(Message::Node(change), NOW);
    }

    fn pod(&mut self, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>) {
        let key = ObjectKey::namespaced(ClusterId::default(), "ns", old.or(new).unwrap().name());
        let change = Change { key, old: old.cloned(), new: new.cloned() };
        self.cluster.handle(Message::Pod(change), NOW);
    }

    /// Runs a scheduling cycle for the next pod and waits for the resulting tasks.
    async fn schedule(&mut self) {
        let popped = self.cluster.queue.pop(NOW).unwrap();
        let tasks = attempt::schedule(&mut self.cluster, &self.effects, &mut Trace::default(), popped, NOW);
        self.finish(tasks).await;
    }

    /// Acts on the verdicts about waiting pods.
    async fn settle(&mut self) {
        for (id, verdict) in self.handle.waiting_pods().take_decided() {
            let tasks = binding::settle(&mut self.cluster, &self.effects, &id.uid, verdict, NOW);
            self.finish(tasks).await;
        }
    }

    async fn finish(&mut self, tasks: Tasks) {
        for task in tasks {
            if let Finished::Bound { pod, profile, started, result, .. } = task.await.unwrap() {
                result.unwrap();
                binding::bound(&mut self.cluster, &self.effects, &pod, profile, started, NOW);
            }
        }
    }

    fn waiting(&self) -> Vec<String> {
        let waiting = self.handle.waiting_pods().list(&ClusterId::default());
        waiting.iter().map(|waiting| waiting.pod().name().to_owned()).collect()
    }

    /// The requests since the last call.
    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    fn reserved(&self) -> Vec<String> {
        self.reserved.lock().unwrap().clone()
    }
}

/// An API server that accepts every request and records it with the pod and its condition.
fn server(requests: &Arc<Mutex<Vec<String>>>) -> Client {
    let requests = Arc::clone(requests);
    let service = tower::service_fn(move |request: Request<Body>| {
        let requests = Arc::clone(&requests);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let path = parts.uri.path().trim_start_matches("/api/v1/namespaces/ns/pods/").to_owned();
            let condition = &body["status"]["conditions"][0];
            let nominated = body["status"].get("nominatedNodeName").map(|node| format!(" promised {node}"));
            let condition_text = match (condition["reason"].as_str(), condition["message"].as_str()) {
                (Some(reason), Some(message)) => format!(" {reason}: {message}"),
                _ => String::new(),
            };
            let line = format!("{} {path}{condition_text}{}", parts.method, nominated.unwrap_or_default());
            requests.lock().unwrap().push(line);
            let answer = json!({"kind": "Status", "metadata": {}, "status": "Success"}).to_string();
            Ok::<_, Infallible>(Response::new(Body::from(answer.into_bytes())))
        }
    });
    Client::new(service, "default")
}

fn member(name: &str, gang: &str, more: Value) -> Arc<Pod> {
    let plain = json!({"metadata": {"labels": {"gang": gang}}, "spec": wanting("1")});
    pod(name, merged(plain, more))
}

#[tokio::test]
async fn gang_is_bound_when_all_members_have_a_node() {
    let mut harness = Harness::new();
    for name in ["one", "two", "three"] {
        harness.pod(None, Some(&member(name, "3", json!({}))));
    }
    harness.schedule().await;
    harness.schedule().await;
    tokio::task::yield_now().await;
    assert_eq!(harness.waiting(), ["one", "two"]);
    assert!(harness.cluster.state.cache.is_assumed("one"), "the pod stays assumed");
    assert_eq!(harness.reserved(), ["one on n", "two on n"]);
    assert_eq!(harness.requests(), ["PATCH one/status promised \"n\"", "PATCH two/status promised \"n\""]);
    harness.schedule().await;
    assert_eq!(harness.requests(), ["POST three/binding"]);
    harness.settle().await;
    assert_eq!(harness.requests(), ["POST one/binding", "POST two/binding"]);
    assert!(
        harness.waiting().is_empty() && harness.cluster.queue.is_empty() && harness.cluster.held.is_empty()
    );
}

#[tokio::test]
async fn rejected_waiting_pod_is_parked_and_its_reservation_undone() {
    let refuse = |harness: &Harness| {
        let waiting = harness.handle.waiting_pods().get(&ClusterId::default(), "p").unwrap();
        assert!(waiting.reject("Gang", "the gang is incomplete"));
    };
    let expire = |harness: &Harness| harness.handle.waiting_pods().expire(NOW + 30 * SECOND);
    for (end, message) in [
        (&refuse as &dyn Fn(&Harness), "the gang is incomplete"),
        (&expire, "rejected due to timeout after waiting 30s at plugin Gang"),
    ] {
        let mut harness = Harness::new();
        harness.pod(None, Some(&member("p", "2", json!({}))));
        harness.schedule().await;
        end(&harness);
        harness.settle().await;
        let expected =
            format!("PATCH p/status Unschedulable: 0/1 nodes are available: 1 {message}. promised null");
        assert_eq!(harness.requests().last(), Some(&expected));
        assert!(harness.cluster.state.cache.pod("p").is_none() && harness.reserved().is_empty());
        let refusal = harness.cluster.queue.refusal_of("p").unwrap();
        assert_eq!(harness.cluster.shared.profiles[0].names(refusal.plugins), ["Gang"]);
        harness.node("another");
        assert!(harness.cluster.queue.is_ready(), "the plugin's hint moves the pod");
    }
}

#[tokio::test]
async fn event_during_the_wait_counts_after_the_rejection() {
    let mut harness = Harness::new();
    harness.pod(None, Some(&member("p", "2", json!({}))));
    harness.schedule().await;
    harness.node("another");
    harness.handle.waiting_pods().expire(NOW + 30 * SECOND);
    harness.settle().await;
    assert!(harness.cluster.queue.refusal_of("p").is_none() && harness.cluster.queue.is_ready());
}

#[tokio::test]
async fn permit_plugin_can_reject_or_fail() {
    for (gang, expected) in [
        ("closed", "PATCH p/status Unschedulable: 0/1 nodes are available: 1 the gang is closed."),
        (
            "broken",
            "PATCH p/status SchedulerError: running Permit plugin \"Gang\": the list of members is gone",
        ),
    ] {
        let mut harness = Harness::new();
        harness.pod(None, Some(&member("p", gang, json!({}))));
        harness.schedule().await;
        assert_eq!(harness.requests(), [expected]);
        assert!(harness.waiting().is_empty() && harness.reserved().is_empty());
        assert!(harness.cluster.state.cache.pod("p").is_none());
    }
}

#[tokio::test]
async fn waiting_pod_is_preempted_without_being_deleted() {
    let mut harness = Harness::new();
    let running = placed("running", "n", json!({"spec": merged(wanting("2"), json!({"priority": 9}))}));
    harness.pod(None, Some(&running));
    harness.pod(None, Some(&member("p", "2", json!({"spec": wanting("2")}))));
    harness.schedule().await;
    assert_eq!(harness.waiting(), ["p"]);
    harness.requests();
    let important = pod("boss", json!({"spec": merged(wanting("2"), json!({"priority": 7}))}));
    harness.pod(None, Some(&important));
    harness.schedule().await;
    let requests = harness.requests();
    assert!(requests.iter().any(|line| line.contains("promised \"n\"")), "{requests:?}");
    assert!(!requests.iter().any(|line| line.starts_with("DELETE")), "{requests:?}");
    harness.settle().await;
    let expected = "PATCH p/status SchedulerError: waiting on permit for pod: preempted promised null";
    assert_eq!(harness.requests().last().map(String::as_str), Some(expected));
    assert!(harness.cluster.state.cache.pod("p").is_none() && harness.reserved().is_empty());
    assert!(harness.cluster.queue.refusal_of("p").is_none(), "a preempted pod is not parked");
}

#[tokio::test]
async fn deleted_pod_stops_waiting() {
    let mut harness = Harness::new();
    let (one, two) = (member("one", "9", json!({})), member("two", "9", json!({})));
    for member in [&one, &two] {
        harness.pod(None, Some(member));
        harness.schedule().await;
    }
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    harness.pod(Some(&one), Some(&member("one", "9", going)));
    harness.pod(Some(&two), None);
    harness.settle().await;
    assert!(harness.waiting().is_empty() && harness.reserved().is_empty());
    assert!(harness.cluster.state.cache.find("n").unwrap().pods().is_empty());
    assert!(harness.cluster.queue.get("two").is_none() && harness.cluster.queue.get("one").is_some());
}
