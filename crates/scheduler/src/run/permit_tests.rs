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

use super::attempt::{self, Begun};
use super::binding;
use super::cluster::{Cluster, SchedulerShared};
use super::effects::{Effects, Finished};
use super::message::Message;
use crate::cluster_state::ClusterState;
use crate::config::{Config, PluginConfig, nobodys_handle};
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
struct Scene {
    cluster: Cluster,
    effects: Effects,
    handle: Handle,
    reserved: Arc<Mutex<Vec<String>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    fn new() -> Self {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let reserved = Arc::<Mutex<Vec<String>>>::default();
        let pods = Objects::of::<core::Pod>(&server(&asked));
        let clock = ManualClock::starting_at(NOW).clock();
        let handle = nobodys_handle();
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
        let mut scene = Self { cluster, effects, handle, reserved, asked };
        scene.node("n");
        scene
    }

    fn node(&mut self, name: &str) {
        let key = ObjectKey::cluster_wide(ClusterId::default(), name);
        let change = Change { key, old: None, new: Some(node(name, json!({}))) };
        self.cluster.take_in(Message::Node(change), NOW);
    }

    fn pod(&mut self, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>) {
        let key = ObjectKey::namespaced(ClusterId::default(), "ns", old.or(new).unwrap().name());
        let change = Change { key, old: old.cloned(), new: new.cloned() };
        self.cluster.take_in(Message::Pod(change), NOW);
    }

    /// Runs a scheduling cycle for the next pod and waits for the resulting tasks.
    async fn schedule(&mut self) {
        let popped = self.cluster.queue.pop(NOW).unwrap();
        let begun = attempt::schedule(&mut self.cluster, &self.effects, &mut Trace::default(), popped, NOW);
        self.finish(begun).await;
    }

    /// Acts on the verdicts about waiting pods.
    async fn settle(&mut self) {
        for (id, verdict) in self.handle.waiting_pods().take_decided() {
            let begun = binding::settle(&mut self.cluster, &self.effects, &id.uid, verdict, NOW);
            self.finish(begun).await;
        }
    }

    async fn finish(&mut self, begun: Begun) {
        for task in begun {
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
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    fn reserved(&self) -> Vec<String> {
        self.reserved.lock().unwrap().clone()
    }
}

/// An API server that accepts every request and records it with the pod and its condition.
fn server(asked: &Arc<Mutex<Vec<String>>>) -> Client {
    let asked = Arc::clone(asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let asked = Arc::clone(&asked);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let path = parts.uri.path().trim_start_matches("/api/v1/namespaces/ns/pods/").to_owned();
            let condition = &body["status"]["conditions"][0];
            let nominated = body["status"].get("nominatedNodeName").map(|node| format!(" promised {node}"));
            let said = match (condition["reason"].as_str(), condition["message"].as_str()) {
                (Some(reason), Some(message)) => format!(" {reason}: {message}"),
                _ => String::new(),
            };
            let line = format!("{} {path}{said}{}", parts.method, nominated.unwrap_or_default());
            asked.lock().unwrap().push(line);
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
    let mut scene = Scene::new();
    for name in ["one", "two", "three"] {
        scene.pod(None, Some(&member(name, "3", json!({}))));
    }
    scene.schedule().await;
    scene.schedule().await;
    tokio::task::yield_now().await;
    assert_eq!(scene.waiting(), ["one", "two"]);
    assert!(scene.cluster.state.cache.is_assumed("one"), "its place is kept");
    assert_eq!(scene.reserved(), ["one on n", "two on n"]);
    assert_eq!(scene.asked(), ["PATCH one/status promised \"n\"", "PATCH two/status promised \"n\""]);
    scene.schedule().await;
    assert_eq!(scene.asked(), ["POST three/binding"]);
    scene.settle().await;
    assert_eq!(scene.asked(), ["POST one/binding", "POST two/binding"]);
    assert!(scene.waiting().is_empty() && scene.cluster.queue.is_empty() && scene.cluster.held.is_empty());
}

#[tokio::test]
async fn rejected_waiting_pod_is_parked_and_its_reservation_undone() {
    let refuse = |scene: &Scene| {
        let waiting = scene.handle.waiting_pods().get(&ClusterId::default(), "p").unwrap();
        assert!(waiting.reject("Gang", "nobody else came"));
    };
    let expire = |scene: &Scene| scene.handle.waiting_pods().expire(NOW + 30 * SECOND);
    for (end, message) in [
        (&refuse as &dyn Fn(&Scene), "nobody else came"),
        (&expire, "rejected due to timeout after waiting 30s at plugin Gang"),
    ] {
        let mut scene = Scene::new();
        scene.pod(None, Some(&member("p", "2", json!({}))));
        scene.schedule().await;
        end(&scene);
        scene.settle().await;
        let told =
            format!("PATCH p/status Unschedulable: 0/1 nodes are available: 1 {message}. promised null");
        assert_eq!(scene.asked().last(), Some(&told));
        assert!(scene.cluster.state.cache.pod("p").is_none() && scene.reserved().is_empty());
        let refusal = scene.cluster.queue.refusal_of("p").unwrap();
        assert_eq!(scene.cluster.shared.profiles[0].names(refusal.plugins), ["Gang"]);
        scene.node("another");
        assert!(scene.cluster.queue.is_ready(), "the plugin says that it helps");
    }
}

#[tokio::test]
async fn event_during_the_wait_counts_after_the_rejection() {
    let mut scene = Scene::new();
    scene.pod(None, Some(&member("p", "2", json!({}))));
    scene.schedule().await;
    scene.node("another");
    scene.handle.waiting_pods().expire(NOW + 30 * SECOND);
    scene.settle().await;
    assert!(scene.cluster.queue.refusal_of("p").is_none() && scene.cluster.queue.is_ready());
}

#[tokio::test]
async fn permit_plugin_can_reject_or_fail() {
    for (gang, told) in [
        ("closed", "PATCH p/status Unschedulable: 0/1 nodes are available: 1 the gang is closed."),
        (
            "broken",
            "PATCH p/status SchedulerError: running Permit plugin \"Gang\": the list of members is gone",
        ),
    ] {
        let mut scene = Scene::new();
        scene.pod(None, Some(&member("p", gang, json!({}))));
        scene.schedule().await;
        assert_eq!(scene.asked(), [told]);
        assert!(scene.waiting().is_empty() && scene.reserved().is_empty());
        assert!(scene.cluster.state.cache.pod("p").is_none());
    }
}

#[tokio::test]
async fn waiting_pod_is_preempted_without_being_deleted() {
    let mut scene = Scene::new();
    let running = placed("running", "n", json!({"spec": merged(wanting("2"), json!({"priority": 9}))}));
    scene.pod(None, Some(&running));
    scene.pod(None, Some(&member("p", "2", json!({"spec": wanting("2")}))));
    scene.schedule().await;
    assert_eq!(scene.waiting(), ["p"]);
    scene.asked();
    let important = pod("boss", json!({"spec": merged(wanting("2"), json!({"priority": 7}))}));
    scene.pod(None, Some(&important));
    scene.schedule().await;
    let asked = scene.asked();
    assert!(asked.iter().any(|line| line.contains("promised \"n\"")), "{asked:?}");
    assert!(!asked.iter().any(|line| line.starts_with("DELETE")), "{asked:?}");
    scene.settle().await;
    let told = "PATCH p/status SchedulerError: waiting on permit for pod: preempted promised null";
    assert_eq!(scene.asked().last().map(String::as_str), Some(told));
    assert!(scene.cluster.state.cache.pod("p").is_none() && scene.reserved().is_empty());
    assert!(scene.cluster.queue.refusal_of("p").is_none(), "it is tried again by itself");
}

#[tokio::test]
async fn deleted_pod_stops_waiting() {
    let mut scene = Scene::new();
    let (one, two) = (member("one", "9", json!({})), member("two", "9", json!({})));
    for member in [&one, &two] {
        scene.pod(None, Some(member));
        scene.schedule().await;
    }
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    scene.pod(Some(&one), Some(&member("one", "9", going)));
    scene.pod(Some(&two), None);
    scene.settle().await;
    assert!(scene.waiting().is_empty() && scene.reserved().is_empty());
    assert!(scene.cluster.state.cache.find("n").unwrap().pods().is_empty());
    assert!(scene.cluster.queue.get("two").is_none() && scene.cluster.queue.get("one").is_some());
}
