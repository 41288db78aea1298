//! Endpoints and EndpointSlices of services.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fmt::Debug;
use std::time::Duration;

use coracle::kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use coracle::kube::{Client, ResourceExt};
use coracle::{Config, Coracle, Handle, StoreConfig};
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(30);

/// An in-memory server without listeners.
async fn start() -> Handle {
    let config =
        Config { store: StoreConfig::Memory, listen: Vec::new(), ..Config::new("/nothing/is/written/there") };
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

async fn create_pod(client: &Client, name: &str, port: u16) {
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let ports = json!([{"name": "web", "containerPort": port}]);
    let spec = json!({"nodeName": "n1", "containers": [{"name": "c", "image": "i", "ports": ports}]});
    create(&pods, json!({"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec})).await;
}

async fn set_status(client: &Client, name: &str, ip: &str, ready: &str) {
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(status)).await.unwrap();
}

/// The slices of a service: addresses with their readiness, and ports.
async fn slices(client: &Client, service: &str) -> Vec<(Vec<(String, bool)>, Vec<i32>)> {
    let api = Api::<EndpointSlice>::namespaced(client.clone(), "default");
    let selected = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let mut all: Vec<_> = api.list(&selected).await.unwrap().items.iter().map(addresses_and_ports).collect();
    all.sort();
    all
}

fn addresses_and_ports(slice: &EndpointSlice) -> (Vec<(String, bool)>, Vec<i32>) {
    let endpoints = slice.endpoints.iter().flatten();
    let ready = |endpoint: &k8s_openapi::api::discovery::v1::Endpoint| {
        endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap()
    };
    let mut addresses: Vec<_> =
        endpoints.map(|endpoint| (endpoint.addresses[0].clone(), ready(endpoint))).collect();
    addresses.sort();
    let ports = slice.ports.iter().flatten().filter_map(|port| port.port).collect();
    (addresses, ports)
}

#[tokio::test]
async fn selected_pods_become_endpoints() {
    let cluster = start().await;
    let client = cluster.client();
    let services = Api::<Service>::namespaced(client.clone(), "default");
    let endpoints = Api::<Endpoints>::namespaced(client.clone(), "default");
    create(&Api::<Node>::all(client.clone()), json!({"metadata": {"name": "n1"}})).await;
    let ports = json!([{"name": "http", "port": 80, "targetPort": "web"}]);
    let spec = json!({"selector": {"app": "x"}, "ports": ports});
    create(&services, json!({"metadata": {"name": "s"}, "spec": spec})).await;
    idle(&cluster).await;
    assert_eq!(slices(&client, "s").await, [(vec![], vec![])], "an empty slice exists");
    assert_eq!(endpoints.get("s").await.unwrap().subsets, None);

    create_pod(&client, "a", 8080).await;
    create_pod(&client, "b", 9090).await;
    set_status(&client, "a", "10.0.0.1", "True").await;
    set_status(&client, "b", "10.0.0.2", "False").await;
    idle(&cluster).await;
    let both = [
        (vec![("10.0.0.1".to_owned(), true)], vec![8080]),
        (vec![("10.0.0.2".to_owned(), false)], vec![9090]),
    ];
    assert_eq!(slices(&client, "s").await, both);
    let subsets = endpoints.get("s").await.unwrap().subsets.unwrap();
    assert_eq!(subsets.len(), 2);
    assert_eq!(subsets[0].addresses.as_ref().unwrap()[0].ip, "10.0.0.1");
    assert_eq!(subsets[1].not_ready_addresses.as_ref().unwrap()[0].ip, "10.0.0.2");

    let api = Api::<EndpointSlice>::namespaced(client.clone(), "default");
    api.delete_collection(
        &DeleteParams::default(),
        &ListParams::default().labels("kubernetes.io/service-name=s"),
    )
    .await
    .unwrap();
    endpoints.delete("s", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert_eq!(slices(&client, "s").await, both, "the slices were recreated");
    assert!(endpoints.get_opt("s").await.unwrap().is_some());

    services.delete("s", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert!(endpoints.get_opt("s").await.unwrap().is_none());
    cluster.shutdown().await;
}

#[tokio::test]
async fn manual_endpoints_are_mirrored_to_slices() {
    let cluster = start().await;
    let client = cluster.client();
    let services = Api::<Service>::namespaced(client.clone(), "default");
    let endpoints = Api::<Endpoints>::namespaced(client.clone(), "default");
    create(&services, json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})).await;
    let made = |ip: &str| json!({"metadata": {"name": "s"}, "subsets": [{"addresses": [{"ip": ip}], "ports": [{"port": 80}]}]});
    create(&endpoints, made("10.1.2.3")).await;
    idle(&cluster).await;
    assert_eq!(slices(&client, "s").await, [(vec![("10.1.2.3".to_owned(), true)], vec![80])]);
    let changed = serde_json::from_value(made("10.2.3.4")).unwrap();
    endpoints.replace("s", &PostParams::default(), &changed).await.unwrap();
    idle(&cluster).await;
    assert_eq!(slices(&client, "s").await, [(vec![("10.2.3.4".to_owned(), true)], vec![80])]);
    endpoints.delete("s", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert!(slices(&client, "s").await.is_empty());
    cluster.shutdown().await;
}

#[tokio::test]
async fn slices_have_at_most_a_hundred_endpoints() {
    let cluster = start().await;
    let client = cluster.client();
    let services = Api::<Service>::namespaced(client.clone(), "default");
    create(&Api::<Node>::all(client.clone()), json!({"metadata": {"name": "n1"}})).await;
    let spec = json!({"selector": {"app": "x"}, "ports": [{"port": 80}]});
    create(&services, json!({"metadata": {"name": "s"}, "spec": spec})).await;
    for number in 0..120 {
        create_pod(&client, &format!("p{number}"), 80).await;
        set_status(&client, &format!("p{number}"), &format!("10.0.0.{number}"), "True").await;
    }
    idle(&cluster).await;
    let held: usize = slices(&client, "s").await.iter().map(|(addresses, _)| addresses.len()).sum();
    assert_eq!(held, 120);
    let all = Api::<EndpointSlice>::namespaced(client.clone(), "default").list(&ListParams::default()).await;
    assert!(all.unwrap().iter().all(|slice| slice.endpoints.as_ref().is_none_or(|held| held.len() <= 100)
        && slice.name_any().starts_with("s-")));
    cluster.shutdown().await;
}
