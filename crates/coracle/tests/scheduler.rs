//! The scheduler in a running server.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::time::Duration;

use coracle::kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use coracle::kube::{Resource, ResourceExt};
use coracle::{Config, Coracle, Handle, StoreConfig};
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodCondition};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use support::wait_for;

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(30);

/// An in-memory server without listeners.
async fn start() -> Handle {
    let mut config = Config::new("/nothing/is/written/there");
    config.store = StoreConfig::Memory;
    config.listen.clear();
    Coracle::start(config).await.unwrap()
}

fn pods(cluster: &Handle) -> Api<Pod> {
    Api::namespaced(cluster.client(), "default")
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

async fn create_node(cluster: &Handle, name: &str, cpu: &str) {
    let nodes = Api::<Node>::all(cluster.client());
    let labels = json!({"kubernetes.io/hostname": name});
    create(&nodes, json!({"metadata": {"name": name, "labels": labels}})).await;
    let allocatable = json!({"cpu": cpu, "memory": "8Gi", "pods": "110"});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let status =
        json!({"status": {"capacity": allocatable, "allocatable": allocatable, "conditions": ready}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    // New nodes are tainted until they are ready.
    let welcoming = Patch::Merge(json!({"spec": {"taints": null}}));
    nodes.patch(name, &PatchParams::default(), &welcoming).await.unwrap();
}

fn pod(name: &str, cpu: &str, more: Value) -> Value {
    let requests = json!({"requests": {"cpu": cpu}});
    let mut spec = json!({"containers": [{"name": "c", "image": "web:1", "resources": requests}]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn scheduled(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "PodScheduled")
}

fn is_refused(pod: &Pod) -> bool {
    scheduled(pod).is_some_and(|condition| condition.status == "False")
}

/// Messages of a pod's events with this reason.
async fn event_messages(cluster: &Handle, pod: &str, reason: &str) -> Vec<String> {
    cluster.run_until_idle().await.unwrap();
    let events = Api::<Event>::namespaced(cluster.client(), "default");
    let fields = format!("involvedObject.name={pod},reason={reason}");
    let list = events.list(&ListParams::default().fields(&fields)).await.unwrap();
    list.items.into_iter().filter_map(|event| event.message).collect()
}

#[tokio::test]
async fn scheduled_pod_gets_a_node_and_an_event() {
    let cluster = start().await;
    create_node(&cluster, "n1", "1").await;
    create_node(&cluster, "n2", "4").await;
    create(&pods(&cluster), pod("web", "2", json!({}))).await;
    cluster.run_until_idle().await.unwrap();
    let web = pods(&cluster).get("web").await.unwrap();
    assert_eq!(node_of(&web), Some("n2"));
    assert_eq!(scheduled(&web).unwrap().status, "True");
    assert_eq!(
        event_messages(&cluster, "web", "Scheduled").await,
        ["Successfully assigned default/web to n2"]
    );
    // Another scheduler is responsible for this one.
    create(&pods(&cluster), pod("other", "1", json!({"schedulerName": "mine"}))).await;
    cluster.run_until_idle().await.unwrap();
    let other = pods(&cluster).get("other").await.unwrap();
    assert!(node_of(&other).is_none() && scheduled(&other).is_none());
    cluster.shutdown().await;
}

#[tokio::test]
async fn unschedulable_pod_is_retried_after_a_helpful_event() {
    let cluster = start().await;
    create(&pods(&cluster), pod("web", "2", json!({}))).await;
    let web = wait_for(LIMIT, &pods(&cluster), "web", is_refused).await;
    let condition = scheduled(&web).unwrap();
    assert_eq!(condition.reason.as_deref(), Some("Unschedulable"));
    assert_eq!(condition.message.as_deref(), Some("no nodes available to schedule pods"));
    create_node(&cluster, "small", "1").await;
    let message = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
                   1 Preemption is not helpful for scheduling.";
    wait_for(LIMIT, &pods(&cluster), "web", |web| {
        scheduled(web).is_some_and(|condition| condition.message.as_deref() == Some(message))
    })
    .await;
    // The last event may be part of a series, which keeps its first message, as in kube-scheduler.
    let event_messages = event_messages(&cluster, "web", "FailedScheduling").await;
    assert!(
        event_messages.iter().any(|note| note == "no nodes available to schedule pods"),
        "{event_messages:?}"
    );
    assert!(
        event_messages.iter().any(|note| note.starts_with("0/1 nodes are available: ")),
        "{event_messages:?}"
    );
    create_node(&cluster, "large", "4").await;
    let web = wait_for(LIMIT, &pods(&cluster), "web", |web| node_of(web).is_some()).await;
    assert_eq!(node_of(&web), Some("large"));
    // The next pod has to wait until this one is deleted.
    create(&pods(&cluster), pod("next", "3", json!({}))).await;
    wait_for(LIMIT, &pods(&cluster), "next", is_refused).await;
    pods(&cluster).delete("web", &DeleteParams::default().grace_period(0)).await.unwrap();
    wait_for(LIMIT, &pods(&cluster), "next", |next| node_of(next) == Some("large")).await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn gated_pod_is_not_scheduled() {
    let cluster = start().await;
    create_node(&cluster, "n1", "4").await;
    create(&pods(&cluster), pod("web", "1", json!({"schedulingGates": [{"name": "example.com/wait"}]})))
        .await;
    cluster.run_until_idle().await.unwrap();
    let web = pods(&cluster).get("web").await.unwrap();
    assert!(node_of(&web).is_none());
    assert_eq!(scheduled(&web).unwrap().reason.as_deref(), Some("SchedulingGated"));
    let free = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
    pods(&cluster).patch("web", &PatchParams::default(), &free).await.unwrap();
    wait_for(LIMIT, &pods(&cluster), "web", |web| node_of(web) == Some("n1")).await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn higher_priority_pod_preempts() {
    let cluster = start().await;
    create_node(&cluster, "n1", "2").await;
    let classes = Api::<PriorityClass>::all(cluster.client());
    create(&classes, json!({"metadata": {"name": "important"}, "value": 1000})).await;
    create(&pods(&cluster), pod("low", "2", json!({}))).await;
    let low = wait_for(LIMIT, &pods(&cluster), "low", |low| node_of(low).is_some()).await;
    // No kubelet runs here: the pod stays until the test deletes it.
    create(&pods(&cluster), pod("high", "1", json!({"priorityClassName": "important"}))).await;
    let nominated_node =
        |pod: &Pod| pod.status.as_ref().and_then(|status| status.nominated_node_name.clone());
    wait_for(LIMIT, &pods(&cluster), "high", |high| nominated_node(high).as_deref() == Some("n1")).await;
    wait_for(LIMIT, &pods(&cluster), "low", |low| low.meta().deletion_timestamp.is_some()).await;
    let going = pods(&cluster).get("low").await.unwrap();
    let conditions = going.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let disruption = conditions.iter().find(|condition| condition.type_ == "DisruptionTarget").unwrap();
    assert_eq!(disruption.reason.as_deref(), Some("PreemptionByScheduler"));
    assert_eq!(
        disruption.message.as_deref(),
        Some("default-scheduler: preempting to accommodate a higher priority pod")
    );
    let high = pods(&cluster).get("high").await.unwrap();
    let note = format!("Preempted by pod {} on node n1", high.uid().unwrap());
    assert_eq!(event_messages(&cluster, "low", "Preempted").await, [note]);
    assert_eq!(low.uid(), going.uid());
    pods(&cluster).delete("low", &DeleteParams::default().grace_period(0)).await.unwrap();
    wait_for(LIMIT, &pods(&cluster), "high", |high| node_of(high) == Some("n1")).await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn delayed_volume_is_bound_with_the_node() {
    let cluster = start().await;
    create_node(&cluster, "n1", "4").await;
    create_node(&cluster, "n2", "4").await;
    let class = json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
                       "volumeBindingMode": "WaitForFirstConsumer"});
    create(&Api::<StorageClass>::all(cluster.client()), class).await;
    let claims = Api::<PersistentVolumeClaim>::namespaced(cluster.client(), "default");
    let claim = json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "local",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    create(&claims, claim).await;
    let volume = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    create(&pods(&cluster), pod("db", "1", json!({"volumes": volume}))).await;
    let db = wait_for(LIMIT, &pods(&cluster), "db", is_refused).await;
    let message = scheduled(&db).unwrap().message.clone().unwrap();
    assert!(
        message.starts_with(
            "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
        )
    );

    let volumes = Api::<PersistentVolume>::all(cluster.client());
    let on_n2 = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}]}});
    let volume = json!({"metadata": {"name": "disk"}, "spec": {"storageClassName": "local",
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}, "local": {"path": "/disk"},
        "nodeAffinity": on_n2}});
    create(&volumes, volume).await;
    let owner = |volume: &PersistentVolume| volume.spec.as_ref()?.claim_ref.as_ref()?.name.clone();
    wait_for(LIMIT, &volumes, "disk", |disk| owner(disk).as_deref() == Some("data")).await;
    wait_for(LIMIT, &pods(&cluster), "db", |db| node_of(db) == Some("n2")).await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn volume_is_provisioned_on_the_node_of_the_pod() {
    let cluster = start().await;
    create_node(&cluster, "small", "1").await;
    create_node(&cluster, "large", "4").await;
    let claims = Api::<PersistentVolumeClaim>::namespaced(cluster.client(), "default");
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    create(&claims, claim).await;
    let volume = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    create(&pods(&cluster), pod("db", "2", json!({"volumes": volume}))).await;
    wait_for(LIMIT, &pods(&cluster), "db", |db| node_of(db) == Some("large")).await;
    let claim = claims.get("data").await.unwrap();
    assert_eq!(claim.annotations()["volume.kubernetes.io/selected-node"], "large");
    assert!(claim.spec.unwrap().volume_name.is_some());
    cluster.shutdown().await;
}

#[tokio::test]
async fn pods_follow_spread_constraints_and_anti_affinity() {
    let cluster = start().await;
    for name in ["n1", "n2", "n3"] {
        create_node(&cluster, name, "4").await;
    }
    let labelled = |name: &str, app: &str, more: Value| {
        let mut pod = pod(name, "100m", more);
        pod["metadata"]["labels"] = json!({"app": app});
        pod
    };
    let selector = json!({"matchLabels": {"app": "web"}});
    let even = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]});
    for number in 0..9 {
        create(&pods(&cluster), labelled(&format!("web-{number}"), "web", even.clone())).await;
    }
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}]}}});
    for number in 0..4 {
        create(&pods(&cluster), labelled(&format!("db-{number}"), "db", apart.clone())).await;
    }
    cluster.run_until_idle().await.unwrap();
    let all = pods(&cluster).list(&ListParams::default()).await.unwrap().items;
    for node in ["n1", "n2", "n3"] {
        let on_node = |app: &str| {
            all.iter().filter(|pod| node_of(pod) == Some(node) && pod.labels()["app"] == app).count()
        };
        assert_eq!((on_node("web"), on_node("db")), (3, 1), "{node}");
    }
    let refused: Vec<_> = all.iter().filter(|pod| node_of(pod).is_none()).collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(
        scheduled(refused[0]).unwrap().message.as_deref(),
        Some(
            "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. preemption: 0/3 nodes are \
             available: 3 No preemption victims found for incoming pod."
        )
    );
    cluster.shutdown().await;
}
