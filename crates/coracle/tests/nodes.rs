//! Node lifecycle, taint-based eviction, and allocation of node and service addresses.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fmt::Debug;
use std::time::Duration;

use coracle::config::{NodeCidrs, NodeMonitor};
use coracle::kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use coracle::kube::{Client, ResourceExt};
use coracle::{Config, Coracle, Handle, StoreConfig};
use k8s_openapi::api::core::v1::{Event, Node, Pod, Service};
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(30);

/// An in-memory server without listeners.
async fn start(change: impl FnOnce(&mut Config)) -> Handle {
    let mut config =
        Config { store: StoreConfig::Memory, listen: Vec::new(), ..Config::new("/nothing/is/written/there") };
    change(&mut config);
    let cluster = Coracle::start(config).await.unwrap();
    idle(&cluster).await;
    cluster
}

async fn idle(cluster: &Handle) {
    tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
}

async fn create<K: Clone + DeserializeOwned + Serialize + Debug>(api: &Api<K>, object: Value) -> K {
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

/// Creates a node with this status of its Ready condition.
async fn create_node(client: &Client, name: &str, ready: &str) {
    create(&Api::<Node>::all(client.clone()), json!({"metadata": {"name": name}})).await;
    report(client, name, ready).await;
}

async fn report(client: &Client, name: &str, ready: &str) {
    let at = "2026-01-01T00:00:00Z";
    let condition =
        json!({"type": "Ready", "status": ready, "lastHeartbeatTime": at, "lastTransitionTime": at});
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    Api::<Node>::all(client.clone()).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

/// The taints of a node, by key and effect.
async fn taints(client: &Client, name: &str) -> Vec<(String, String)> {
    let node = Api::<Node>::all(client.clone()).get(name).await.unwrap();
    let taints = node.spec.unwrap().taints.unwrap_or_default();
    let mut taints: Vec<_> = taints.into_iter().map(|taint| (taint.key, taint.effect)).collect();
    taints.sort();
    taints
}

fn taints_of(taints: &[(&str, &str)]) -> Vec<(String, String)> {
    taints.iter().map(|(key, effect)| (format!("node.kubernetes.io/{key}"), effect.to_string())).collect()
}

async fn create_pod(client: &Client, name: &str, tolerations: Value) {
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let containers = json!([{"name": "c", "image": "i"}]);
    let spec = json!({"nodeName": "a", "containers": containers, "tolerations": tolerations});
    create(&pods, json!({"metadata": {"name": name}, "spec": spec})).await;
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = Patch::Strategic(json!({"status": {"phase": "Running", "conditions": [ready]}}));
    pods.patch_status(name, &PatchParams::default(), &status).await.unwrap();
}

/// Status and reason of a pod's condition.
async fn pod_condition(client: &Client, name: &str, r#type: &str) -> Option<(String, Option<String>)> {
    let pod = Api::<Pod>::namespaced(client.clone(), "default").get(name).await.unwrap();
    let conditions = pod.status.unwrap().conditions.unwrap();
    let found = conditions.into_iter().find(|condition| condition.type_ == r#type)?;
    Some((found.status, found.reason))
}

async fn messages(client: &Client, reason: &str) -> Vec<String> {
    let events =
        Api::<Event>::namespaced(client.clone(), "default").list(&ListParams::default()).await.unwrap();
    let event_messages = events.items.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    event_messages.filter_map(|event| event.message).collect()
}

#[tokio::test]
async fn node_without_heartbeat_becomes_not_ready() {
    // Any heartbeat is too old.
    let monitor = NodeMonitor { grace_period: Duration::ZERO, ..NodeMonitor::default() };
    let cluster = start(|config| config.node_monitor = monitor).await;
    let client = cluster.client();
    create_pod(&client, "p", json!([])).await;
    create_node(&client, "a", "True").await;
    idle(&cluster).await;
    let node = Api::<Node>::all(client.clone()).get("a").await.unwrap();
    assert_eq!(node.annotations()["node.alpha.kubernetes.io/ttl"], "0");
    let conditions = node.status.unwrap().conditions.unwrap();
    let statuses: Vec<_> =
        conditions.iter().map(|condition| (&*condition.type_, &*condition.status)).collect();
    for r#type in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        assert!(statuses.contains(&(r#type, "Unknown")), "{statuses:?}");
    }
    assert_eq!(conditions[0].reason.as_deref(), Some("NodeStatusUnknown"));
    assert_eq!(conditions[0].message.as_deref(), Some("Kubelet stopped posting node status."));
    // No node is healthy, so no pods are evicted.
    assert_eq!(taints(&client, "a").await, taints_of(&[("unreachable", "NoSchedule")]));
    assert_eq!(pod_condition(&client, "p", "Ready").await, Some(("False".to_owned(), None)));
    assert_eq!(messages(&client, "RegisteredNode").await, ["Node a event: Registered Node a in Controller"]);
    let mut event_messages = messages(&client, "NodeNotReady").await;
    event_messages.retain(|message| message != "Node a status is now: NodeNotReady");
    assert_eq!(event_messages, ["Node is not ready"]);

    Api::<Node>::all(client.clone()).delete("a", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert_eq!(messages(&client, "RemovingNode").await, ["Node a event: Removing Node a from Controller"]);
    cluster.shutdown().await;
}

#[tokio::test]
async fn node_conditions_become_taints() {
    let cluster = start(|_| {}).await;
    let client = cluster.client();
    create_node(&client, "a", "False").await;
    create_node(&client, "b", "True").await;
    idle(&cluster).await;
    let both = taints_of(&[("not-ready", "NoExecute"), ("not-ready", "NoSchedule")]);
    assert_eq!(taints(&client, "a").await, both);
    assert_eq!(taints(&client, "b").await, taints_of(&[]));
    report(&client, "a", "True").await;
    let cordon = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    Api::<Node>::all(client.clone()).patch("b", &PatchParams::default(), &cordon).await.unwrap();
    idle(&cluster).await;
    assert_eq!(taints(&client, "a").await, taints_of(&[]));
    assert_eq!(taints(&client, "b").await, taints_of(&[("unschedulable", "NoSchedule")]));
    cluster.shutdown().await;
}

#[tokio::test]
async fn pods_without_toleration_are_evicted_from_tainted_nodes() {
    let cluster = start(|_| {}).await;
    let client = cluster.client();
    create_node(&client, "a", "True").await;
    create_pod(&client, "goes", json!([])).await;
    create_pod(&client, "stays", json!([{"key": "k", "operator": "Exists"}])).await;
    let later = json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}]);
    create_pod(&client, "later", later).await;
    let taint = Patch::Merge(json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
    let nodes = Api::<Node>::all(client.clone());
    nodes.patch("a", &PatchParams::default(), &taint).await.unwrap();
    idle(&cluster).await;
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    for (name, leaves) in [("goes", true), ("stays", false), ("later", false)] {
        let pod = pods.get(name).await.unwrap();
        assert_eq!(pod.metadata.deletion_timestamp.is_some(), leaves, "{name}");
    }
    let condition = pod_condition(&client, "goes", "DisruptionTarget").await;
    assert_eq!(condition, Some(("True".to_owned(), Some("DeletionByTaintManager".to_owned()))));
    let eviction = "TaintManagerEviction";
    assert_eq!(messages(&client, eviction).await, ["Marking for deletion Pod default/goes"]);
    let none = Patch::Merge(json!({"spec": {"taints": null}}));
    nodes.patch("a", &PatchParams::default(), &none).await.unwrap();
    idle(&cluster).await;
    assert!(
        messages(&client, eviction).await.contains(&"Cancelling deletion of Pod default/later".to_owned())
    );
    cluster.shutdown().await;
}

#[tokio::test]
async fn nodes_get_pod_cidrs() {
    let ranges = vec!["10.1.0.0/23".parse().unwrap(), "fd00:1::/56".parse().unwrap()];
    let cidrs = NodeCidrs::new(ranges, 24, 64).unwrap();
    let cluster = start(|config| config.node_cidrs = Some(cidrs)).await;
    let client = cluster.client();
    let nodes = Api::<Node>::all(client.clone());
    let cidrs = async |name: &str| nodes.get(name).await.unwrap().spec.unwrap().pod_cidrs;
    for name in ["a", "b", "c"] {
        create_node(&client, name, "True").await;
        idle(&cluster).await;
    }
    assert_eq!(cidrs("a").await.unwrap(), ["10.1.0.0/24", "fd00:1::/64"]);
    assert_eq!(cidrs("b").await.unwrap(), ["10.1.1.0/24", "fd00:1:0:1::/64"]);
    assert_eq!(cidrs("c").await, None, "the range is exhausted");
    assert_eq!(messages(&client, "CIDRNotAvailable").await, ["Node c status is now: CIDRNotAvailable"]);
    nodes.delete("a", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert_eq!(cidrs("c").await.unwrap()[0], "10.1.0.0/24");
    cluster.shutdown().await;
}

#[tokio::test]
async fn service_cidr_in_use_is_not_deleted() {
    let cluster = start(|_| {}).await;
    let client = cluster.client();
    let ranges = Api::<ServiceCIDR>::all(client.clone());
    let ready = async |name: &str| {
        let status = ranges.get(name).await.unwrap().status.unwrap();
        let ready = status.conditions.unwrap().remove(0);
        (ready.status, ready.reason)
    };
    let spec = json!({"cidrs": ["10.200.0.0/28"]});
    create(&ranges, json!({"metadata": {"name": "more"}, "spec": spec})).await;
    idle(&cluster).await;
    let finalizer = ["networking.k8s.io/service-cidr-finalizer"];
    assert_eq!(ranges.get("more").await.unwrap().finalizers(), finalizer);
    assert_eq!(ready("more").await, ("True".to_owned(), String::new()));
    assert_eq!(
        ranges.get("kubernetes").await.unwrap().finalizers(),
        finalizer,
        "the initial range has the finalizer"
    );

    let services = Api::<Service>::namespaced(client.clone(), "default");
    let spec = json!({"clusterIP": "10.200.0.5", "ports": [{"port": 80}]});
    create(&services, json!({"metadata": {"name": "s"}, "spec": spec})).await;
    idle(&cluster).await;
    ranges.delete("more", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert_eq!(ready("more").await, ("False".to_owned(), "Terminating".to_owned()));
    cluster.shutdown().await;
}

#[tokio::test]
async fn deleted_ip_address_of_a_service_is_recreated() {
    let cluster = start(|_| {}).await;
    let client = cluster.client();
    let (services, addresses) =
        (Api::<Service>::namespaced(client.clone(), "default"), Api::<IPAddress>::all(client.clone()));
    let service =
        create(&services, json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})).await;
    idle(&cluster).await;
    assert_eq!(
        messages(&client, "ClusterIPNotAllocated").await,
        [""; 0],
        "the address was allocated on creation"
    );
    let ip = service.spec.unwrap().cluster_ip.unwrap();
    let before = addresses.get(&ip).await.unwrap();
    addresses.delete(&ip, &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    let after = addresses.get(&ip).await.unwrap();
    assert_ne!(before.uid(), after.uid());
    assert_eq!((before.spec, before.metadata.labels), (after.spec, after.metadata.labels));
    let event_messages = format!("Cluster IP [IPv4]: {ip} is not allocated; repairing");
    assert_eq!(messages(&client, "ClusterIPNotAllocated").await, [event_messages]);
    cluster.shutdown().await;
}
