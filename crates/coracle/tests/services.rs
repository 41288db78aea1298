//! Services and the IPAddress objects of their cluster IPs.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::time::Duration;

use coracle::config::ServiceNetwork;
use coracle::kube::ResourceExt;
use coracle::kube::api::{Api, DeleteParams, ListParams, PostParams};
use coracle::{Config, Coracle, Handle, StoreConfig};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::IPAddress;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(60);

/// The number of cycles in the issue that this test covers.
const CYCLES: usize = 1_000;

/// A server with 14 service addresses.
async fn start() -> (Handle, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let (range, ports) = ("10.0.0.0/28".parse().unwrap(), ServiceNetwork::default().node_ports());
    let service_network = ServiceNetwork::new(vec![range], ports).unwrap();
    let mut config = Config { store: StoreConfig::Memory, service_network, ..Config::new(dir.path()) };
    config.listen.clear();
    (Coracle::start(config).await.unwrap(), dir)
}

async fn idle(cluster: &Handle) {
    tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
}

fn service(name: &str, ip: Option<&str>) -> Service {
    let mut service: Value = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    if let Some(ip) = ip {
        service["spec"]["clusterIP"] = ip.into();
    }
    serde_json::from_value(service).unwrap()
}

/// The addresses of all IPAddress objects, and those of all services.
async fn addresses(cluster: &Handle) -> (Vec<String>, Vec<String>) {
    let all = Api::<IPAddress>::all(cluster.client()).list(&ListParams::default()).await.unwrap();
    let mut allocated: Vec<_> = all.iter().map(ResourceExt::name_any).collect();
    let all = Api::<Service>::all(cluster.client()).list(&ListParams::default()).await.unwrap();
    let mut held: Vec<_> = all.into_iter().filter_map(|service| service.spec?.cluster_ip).collect();
    allocated.sort();
    held.sort();
    (allocated, held)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_service_leaves_no_address_behind() {
    let (cluster, _dir) = start().await;
    idle(&cluster).await;
    let services = Api::<Service>::namespaced(cluster.client(), "default");
    for _ in 0..CYCLES {
        // One without a fixed address, and one that is recreated with the address it has just released.
        for (name, ip) in [("any", None), ("fixed", Some("10.0.0.9"))] {
            services.create(&PostParams::default(), &service(name, ip)).await.unwrap();
            services.delete(name, &DeleteParams::default()).await.unwrap();
        }
    }
    idle(&cluster).await;
    let (allocated, held) = addresses(&cluster).await;
    assert_eq!(allocated, held);
    assert_eq!(held.len(), 1, "only the address of the service kubernetes is left");
    cluster.shutdown().await;
}

#[tokio::test]
async fn deleted_address_of_an_existing_service_is_recreated() {
    let (cluster, _dir) = start().await;
    let services = Api::<Service>::namespaced(cluster.client(), "default");
    services.create(&PostParams::default(), &service("s", Some("10.0.0.5"))).await.unwrap();
    idle(&cluster).await;
    let addresses_api = Api::<IPAddress>::all(cluster.client());
    let before = addresses_api.get("10.0.0.5").await.unwrap();
    addresses_api.delete("10.0.0.5", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    let after = addresses_api.get("10.0.0.5").await.unwrap();
    assert_ne!(before.uid(), after.uid());
    let (allocated, held) = addresses(&cluster).await;
    assert_eq!(allocated, held);
    cluster.shutdown().await;
}
