//! Scheduler plugins of an embedding program; events and metrics of the scheduler.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coracle::kube::api::{Api, Patch, PatchParams, PostParams};
use coracle::scheduler::framework::{Handle as SchedulerHandle, Permit, Plugin, PreFilter, Rejection};
use coracle::scheduler::{self, ClusterState, PluginConfig};
use coracle::{Config, Coracle, Extensions, Handle, StartError, StoreConfig};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};
use support::wait_for;

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(30);

/// Permit plugin: a pod with the label `gang` waits until that many members have a node, or for at most
/// `patience`.
struct Gang {
    handle: SchedulerHandle,
    patience: Duration,
}

impl Plugin for Gang {
    fn name(&self) -> &'static str {
        "Gang"
    }

    fn pre_filter<'w>(&'w self, _state: &'w ClusterState, pod: &'w Arc<scheduler::Pod>) -> PreFilter<'w> {
        match pod.labels().get("banned") {
            Some(_) => PreFilter::Reject(Rejection::unresolvable("it is banned")),
            None => PreFilter::Skip,
        }
    }

    fn permit(&self, state: &ClusterState, pod: &Arc<scheduler::Pod>, _node: &str) -> Permit {
        let Some(size) = pod.labels().get("gang") else { return Permit::Allow };
        let waiting = self.handle.waiting_pods().list(state.cluster());
        if waiting.len() + 1 < size.parse().unwrap() {
            return Permit::Wait(self.patience);
        }
        waiting.iter().for_each(|member| member.allow(self.name()));
        Permit::Allow
    }
}

/// An in-memory server with one node and the profile `gangs`, which enables the plugin; and the plugin's
/// handle.
async fn start(patience_ms: u64) -> (Handle, SchedulerHandle) {
    let handle_slot = Arc::<OnceLock<SchedulerHandle>>::default();
    let mut extensions = Extensions::default();
    let slot = Arc::clone(&handle_slot);
    extensions.scheduler.registry.add("Gang", move |context| {
        let patience = Duration::from_millis(context.args()["patienceMs"].as_u64().ok_or("no patience")?);
        if context.handle().client().is_some() {
            // Not when the configuration is only validated.
            slot.set(context.handle()).map_err(|_| "it is made once")?;
        }
        Ok(Arc::new(Gang { handle: context.handle(), patience }))
    });
    let mut profile = scheduler::ProfileConfig::new("gangs");
    profile.enabled.push(PluginConfig::new("Gang").args(json!({"patienceMs": patience_ms})));
    extensions.scheduler.profiles.push(profile);
    let cluster = Coracle::start_with(config(), extensions).await.unwrap();
    create_node(&cluster).await;
    (cluster, handle_slot.get().unwrap().clone())
}

fn config() -> Config {
    let mut config = Config::new("/nothing/is/written/there");
    config.store = StoreConfig::Memory;
    config.listen.clear();
    config
}

async fn create_node(cluster: &Handle) {
    let nodes = Api::<Node>::all(cluster.client());
    let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let status = json!({"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}]}});
    nodes.patch_status("n", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let welcoming = Patch::Merge(json!({"spec": {"taints": null}}));
    nodes.patch("n", &PatchParams::default(), &welcoming).await.unwrap();
}

fn pods(cluster: &Handle) -> Api<Pod> {
    Api::namespaced(cluster.client(), "default")
}

async fn create_pod(cluster: &Handle, name: &str, labels: Value) -> Pod {
    let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": {"schedulerName": "gangs",
        "containers": [{"name": "c", "image": "web:1"}]}});
    pods(cluster).create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn nominated_node(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.nominated_node_name.as_deref()
}

fn unschedulable_message(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == "PodScheduled")?;
    condition.message.as_deref()
}

async fn get(cluster: &Handle, path: &str) -> Value {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    cluster.client().request(request).await.unwrap()
}

/// Events of a pod with this reason, in an API group's format, the oldest first.
async fn events_of(cluster: &Handle, group: &str, pod: &str, reason: &str) -> Vec<Value> {
    cluster.run_until_idle().await.unwrap();
    let list = get(cluster, &format!("{group}/namespaces/default/events")).await;
    let mut events: Vec<Value> = list["items"].as_array().unwrap().clone();
    events.retain(|event| {
        let about = [&event["involvedObject"]["name"], &event["regarding"]["name"]];
        about.contains(&&json!(pod)) && event["reason"] == reason
    });
    events.sort_by_key(|event| event["eventTime"].to_string());
    events
}

#[tokio::test]
async fn gang_is_bound_when_all_members_have_a_node() {
    let (cluster, scheduler) = start(600_000).await;
    for name in ["one", "two"] {
        create_pod(&cluster, name, json!({"gang": "3"})).await;
        let waiting = wait_for(LIMIT, &pods(&cluster), name, |pod| nominated_node(pod) == Some("n")).await;
        assert_eq!(node_of(&waiting), None);
    }
    cluster.run_until_idle().await.unwrap();
    let default = coracle::scheduler::ClusterId::default();
    let waiting = scheduler.waiting_pods().list(&default);
    assert_eq!(waiting.iter().map(|pod| pod.pod().name()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(waiting[0].pending_plugins(), ["Gang"]);
    create_pod(&cluster, "three", json!({"gang": "3"})).await;
    for name in ["one", "two", "three"] {
        wait_for(LIMIT, &pods(&cluster), name, |pod| node_of(pod) == Some("n")).await;
    }
    cluster.run_until_idle().await.unwrap();
    assert!(scheduler.waiting_pods().list(&default).is_empty());
    // Other pods are not affected by the plugin. The last member never comes, and the shutdown does not
    // wait for it.
    create_pod(&cluster, "single", json!({})).await;
    create_pod(&cluster, "lonely", json!({"gang": "9"})).await;
    wait_for(LIMIT, &pods(&cluster), "single", |pod| node_of(pod) == Some("n")).await;
    wait_for(LIMIT, &pods(&cluster), "lonely", |pod| nominated_node(pod) == Some("n")).await;
    cluster.shutdown().await;
    assert!(scheduler.waiting_pods().list(&default).is_empty());
}

#[tokio::test]
async fn waiting_pod_is_rejected_at_its_timeout_and_loses_its_nomination() {
    let (cluster, _) = start(50).await;
    create_pod(&cluster, "lonely", json!({"gang": "2"})).await;
    let message = "0/1 nodes are available: 1 rejected due to timeout after waiting 50ms at plugin Gang.";
    let lonely =
        wait_for(LIMIT, &pods(&cluster), "lonely", |pod| unschedulable_message(pod) == Some(message)).await;
    assert_eq!((node_of(&lonely), nominated_node(&lonely)), (None, None));
    let metrics = metrics(&cluster).await;
    assert!(metrics.contains("scheduler_permit_wait_duration_seconds_count{result=\"Unschedulable\"} 1"));
    cluster.shutdown().await;
}

#[tokio::test]
async fn unknown_plugin_fails_the_start() {
    let mut extensions = Extensions::default();
    extensions.scheduler.profiles[0].enabled.push(PluginConfig::new("Nobody"));
    let error = Coracle::start_with(config(), extensions).await.unwrap_err();
    assert!(matches!(error, StartError::Scheduler(_)));
    assert_eq!(error.to_string(), "profile \"default-scheduler\": plugin \"Nobody\" does not exist");
}

#[tokio::test]
async fn scheduling_event_has_the_format_of_kube_scheduler() {
    let (cluster, _) = start(50).await;
    let pod = create_pod(&cluster, "p", json!({})).await;
    wait_for(LIMIT, &pods(&cluster), "p", |pod| node_of(pod) == Some("n")).await;
    let [event] = &events_of(&cluster, "/apis/events.k8s.io/v1", "p", "Scheduled").await[..] else {
        panic!("one")
    };
    let regarding = json!({"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p",
        "uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version});
    let instance = event["reportingInstance"].as_str().unwrap();
    assert!(instance.starts_with("gangs-") && instance.len() > "gangs-".len(), "{instance}");
    let common = json!({"eventTime": event["eventTime"], "reportingInstance": instance, "action": "Binding",
        "reason": "Scheduled", "type": "Normal"});
    assert!(event["eventTime"].as_str().unwrap().ends_with("000Z"), "with microseconds");
    let own = json!({"regarding": regarding, "note": "Successfully assigned default/p to n",
        "reportingController": "gangs", "deprecatedSource": {}, "deprecatedFirstTimestamp": null,
        "deprecatedLastTimestamp": null});
    has(event, &common);
    has(event, &own);
    let [event] = &events_of(&cluster, "/api/v1", "p", "Scheduled").await[..] else { panic!("one") };
    let core = json!({"involvedObject": regarding, "message": "Successfully assigned default/p to n",
        "reportingComponent": "gangs", "source": {}, "firstTimestamp": null, "lastTimestamp": null});
    has(event, &common);
    has(event, &core);
    assert!(event.get("count").is_none() && event.get("series").is_none());
    cluster.shutdown().await;
}

#[tokio::test]
async fn repeated_event_becomes_a_series() {
    let (cluster, scheduler) = start(50).await;
    let uid = create_pod(&cluster, "p", json!({"banned": "yes"})).await.metadata.uid.unwrap();
    wait_for(LIMIT, &pods(&cluster), "p", |pod| unschedulable_message(pod).is_some()).await;
    let default = coracle::scheduler::ClusterId::default();
    for _ in 0..4 {
        cluster.run_until_idle().await.unwrap();
        scheduler.activate(&default, &uid);
    }
    let events = events_of(&cluster, "/apis/events.k8s.io/v1", "p", "FailedScheduling").await;
    // The first attempt changed the pod's condition, so later events refer to another version.
    assert_eq!(events.len(), 2, "{events:#?}");
    assert!(events[0].get("series").is_none());
    assert_eq!(events[1]["series"]["count"], 2, "later events are counted in the series");
    assert_eq!(events[1]["action"], "Scheduling");
    assert_eq!(
        events[1]["note"],
        "0/1 nodes are available: it is banned. preemption: 0/1 nodes are available: 1 Preemption is not helpful \
         for scheduling."
    );
    cluster.shutdown().await;
}

#[tokio::test]
async fn metrics_endpoint_includes_the_scheduler() {
    let (cluster, _) = start(50).await;
    create_pod(&cluster, "p", json!({})).await;
    create_pod(&cluster, "banned", json!({"banned": "yes"})).await;
    wait_for(LIMIT, &pods(&cluster), "p", |pod| node_of(pod) == Some("n")).await;
    wait_for(LIMIT, &pods(&cluster), "banned", |pod| unschedulable_message(pod).is_some()).await;
    cluster.run_until_idle().await.unwrap();
    let text = metrics(&cluster).await;
    for line in [
        "# HELP scheduler_pending_pods [STABLE] Number of pending pods, by the queue type.",
        "scheduler_schedule_attempts_total{profile=\"gangs\",result=\"scheduled\"} 1",
        "scheduler_schedule_attempts_total{profile=\"gangs\",result=\"unschedulable\"} 1",
        "scheduler_pending_pods{queue=\"unschedulable\"} 1",
        "scheduler_pending_pods{queue=\"active\"} 0",
        "scheduler_unschedulable_pods{plugin=\"Gang\",profile=\"gangs\"} 1",
        "scheduler_queue_incoming_pods_total{event=\"UnschedulablePodAdd\",queue=\"active\"} 2",
        "scheduler_queue_incoming_pods_total{event=\"ScheduleAttemptFailure\",queue=\"unschedulable\"} 1",
        "scheduler_pod_scheduling_attempts_bucket{le=\"1\"} 1",
        "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"1\"} 1",
        "scheduler_scheduling_attempt_duration_seconds_bucket{profile=\"gangs\",result=\"scheduled\",le=\"16.384\"} 1",
        "scheduler_scheduling_algorithm_duration_seconds_count 2",
        "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Bind\",profile=\"gangs\",status=\"Success\"} 1",
        "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"PreEnqueue\",profile=\"gangs\",status=\"Success\"} 2",
        "scheduler_plugin_evaluation_total{extension_point=\"Filter\",plugin=\"NodeResourcesFit\",profile=\"gangs\"} 1",
        "scheduler_preemption_attempts_total 1",
        "scheduler_cache_size{type=\"nodes\"} 1",
        "scheduler_cache_size{type=\"pods\"} 1",
        "scheduler_goroutines{operation=\"binding\"} 0",
        "scheduler_inflight_events{event=\"PodPopped\"} 0",
        "scheduler_event_handling_duration_seconds_count{event=\"NodeAdd\"} 1",
    ] {
        assert!(
            text.lines().any(|events_of| events_of.starts_with(line)),
            "{line} in\n{}",
            of_scheduler(&text)
        );
    }
    cluster.shutdown().await;
}

fn of_scheduler(text: &str) -> String {
    let lines = text.lines().filter(|line| line.starts_with("scheduler_") && !line.contains("_bucket"));
    lines.collect::<Vec<_>>().join("\n")
}

fn has(event: &Value, fields: &Value) {
    for (name, value) in fields.as_object().unwrap() {
        assert_eq!(event.get(name), Some(value), "{name} of {event:#}");
    }
}

async fn metrics(cluster: &Handle) -> String {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    cluster.client().request_text(request).await.unwrap()
}
