//! Allocation and release of service IPs and node ports.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeSet;

use coracle_base::{Clock, Rng, Task};
use coracle_registry::kinds::core::service::Service;
use coracle_registry::kinds::networking::ip_address::IpAddress;
use coracle_registry::kinds::networking::service_cidr::ServiceCidr;
use coracle_registry::lifecycle::{Change, DeleteOptions, ListOptions, Write};
use coracle_registry::{Cluster, Error, Identity, Registry, ServerInfo, ServiceNetwork};
use coracle_store::memory;
use serde_json::{Value, json};

const WRITE: Write<'static> = Write {
    kind: &Service,
    api_version: "v1",
    served_version: "v1",
    namespace: "default",
    subresource: "",
    manager: "test",
    requester: const { &Identity::server() },
    dry_run: false,
    audit: None,
    sent: None,
};

/// The ranges of a test: 14 addresses and 8 ports.
fn cluster() -> Cluster {
    cluster_with(&["10.0.0.0/28"], "30000-30007")
}

fn cluster_with(ranges: &[&str], ports: &str) -> Cluster {
    let ranges = ranges.iter().map(|range| range.parse().unwrap()).collect();
    let network = ServiceNetwork::new(ranges, ports.parse().unwrap()).unwrap();
    let store = memory::open(memory::Options::default());
    let registry = Registry::new(store, Clock::system(), Rng::seeded(7)).with_service_network(network);
    registry.cluster("default").unwrap()
}

fn service(name: &str, spec: Value) -> Value {
    let mut service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    if service["spec"].get("ports").is_none() {
        service["spec"]["ports"] = json!([{"port": 80}]);
    }
    service
}

async fn create(cluster: &Cluster, name: &str, spec: Value) -> Result<Value, Error> {
    let created = cluster.create(&WRITE, service(name, spec)).await?;
    Ok(serde_json::from_slice(&created.object.json).unwrap())
}

async fn refusal(cluster: &Cluster, spec: Value) -> String {
    create(cluster, "refused", spec).await.unwrap_err().to_string()
}

async fn patch(cluster: &Cluster, name: &str, patch: Value) -> Result<Value, Error> {
    let merge = move |mut object: Value| {
        merge(&mut object, &patch);
        Ok(object)
    };
    let updated = cluster.update(&WRITE, name, &Change::Patch(&merge)).await?;
    Ok(serde_json::from_slice(&updated.object.json).unwrap())
}

fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (name, value) in patch {
                match value {
                    Value::Null => drop(object.remove(name)),
                    value => merge(object.entry(name).or_insert(Value::Null), value),
                }
            }
        }
        (object, patch) => *object = patch.clone(),
    }
}

async fn delete(cluster: &Cluster, name: &str) {
    assert!(cluster.delete(&WRITE, name, &DeleteOptions::default()).await.unwrap().gone);
}

async fn held(cluster: &Cluster) -> Vec<Value> {
    let page = cluster.list(&IpAddress, "", &ListOptions::default()).await.unwrap();
    page.entries.iter().map(|entry| serde_json::from_slice(&entry.value_bytes()).unwrap()).collect()
}

#[tokio::test]
async fn dry_run_does_not_check_the_range_of_a_node_port() {
    let (cluster, dry) = (cluster(), Write { dry_run: true, ..WRITE });
    let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]});
    assert!(refusal(&cluster, spec.clone()).await.contains("not in the valid range"));
    let created = cluster.create(&dry, service("a", spec)).await.unwrap();
    let created: Value = serde_json::from_slice(&created.object.json).unwrap();
    assert_eq!(created["spec"]["ports"][0]["nodePort"], 80);
}

#[tokio::test]
async fn service_ip_is_allocated_with_an_ip_address_object() {
    let cluster = cluster();
    let created = create(&cluster, "a", json!({})).await.unwrap();
    let spec = &created["spec"];
    assert_eq!(spec["clusterIPs"], json!([spec["clusterIP"]]));
    assert_eq!((&spec["ipFamilies"], &spec["ipFamilyPolicy"]), (&json!(["IPv4"]), &json!("SingleStack")));
    let managed = created["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"].as_object().unwrap();
    assert!(!managed.contains_key("f:clusterIP"), "the client did not ask for it");

    let addresses = held(&cluster).await;
    let [address] = addresses.as_slice() else { panic!("{addresses:?}") };
    assert_eq!(address["metadata"]["name"], spec["clusterIP"]);
    assert_eq!(
        address["metadata"]["labels"],
        json!({"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"})
    );
    assert_eq!(
        address["spec"]["parentRef"],
        json!({"resource": "services", "namespace": "default", "name": "a"})
    );
    assert!(address["metadata"].get("generation").is_none());
    assert_eq!(
        address["metadata"]["managedFields"][0]["time"], address["metadata"]["creationTimestamp"],
        "as if written through the API"
    );
    delete(&cluster, "a").await;
    assert!(held(&cluster).await.is_empty());
}

#[tokio::test]
async fn requested_ip_is_allocated_or_rejected() {
    let cluster = cluster();
    let asked = create(&cluster, "asked", json!({"clusterIP": "10.0.0.9"})).await.unwrap();
    assert_eq!(asked["spec"]["clusterIPs"], json!(["10.0.0.9"]));
    let cases = [
        (
            json!({"clusterIP": "10.0.0.9"}),
            r#"spec.clusterIPs: Invalid value: ["10.0.0.9"]: failed to allocate IP 10.0.0.9: provided IP is already allocated"#,
        ),
        (
            json!({"clusterIP": "10.0.0.15"}),
            r#"spec.clusterIPs: Invalid value: ["10.0.0.15"]: failed to allocate IP 10.0.0.15: the provided network does not match the current range"#,
        ),
        (
            json!({"clusterIP": "fd00::1"}),
            r#"spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster"#,
        ),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            r#"spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster"#,
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-30007",
        ),
    ];
    for (spec, expected) in cases {
        let refused = refusal(&cluster, spec).await;
        assert_eq!(refused, format!("Service \"refused\" is invalid: {expected}"));
    }
    assert_eq!(held(&cluster).await.len(), 1, "rejected services hold nothing");
    let again = create(&cluster, "asked", json!({"clusterIP": "10.0.0.9"})).await.unwrap_err().to_string();
    assert!(again.ends_with("provided IP is already allocated"), "as in kube-apiserver: {again}");
}

#[tokio::test]
async fn services_without_cluster_ip_hold_none() {
    let cluster = cluster();
    let headless = create(&cluster, "headless", json!({"clusterIP": "None"})).await.unwrap();
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    let external = json!({"type": "ExternalName", "externalName": "a.b"});
    let created = create(&cluster, "external", external.clone()).await.unwrap();
    assert!(created["spec"].get("clusterIP").is_none());
    assert!(held(&cluster).await.is_empty());

    let inside = json!({"spec": {"type": "ClusterIP", "externalName": null, "clusterIP": "10.0.0.3"}});
    let changed = patch(&cluster, "external", inside).await.unwrap();
    assert_eq!(changed["spec"]["clusterIPs"], json!(["10.0.0.3"]));
    assert_eq!(held(&cluster).await.len(), 1);
    let changed = patch(&cluster, "external", json!({"spec": external})).await.unwrap();
    assert!(changed["spec"].get("clusterIP").is_none() && changed["spec"].get("ipFamilies").is_none());
    assert!(held(&cluster).await.is_empty());
}

#[tokio::test]
async fn dual_stack_service_gets_an_ip_of_each_family() {
    let cluster = cluster_with(&["10.0.0.0/28", "fd00::/112"], "30000-30007");
    let one = create(&cluster, "one", json!({})).await.unwrap();
    assert_eq!(one["spec"]["ipFamilies"], json!(["IPv4"]));
    let two = patch(&cluster, "one", json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}})).await.unwrap();
    assert_eq!(two["spec"]["clusterIPs"].as_array().unwrap().len(), 2);
    assert!(two["spec"]["clusterIPs"][1].as_str().unwrap().starts_with("fd00::"));
    assert_eq!(held(&cluster).await.len(), 2);
    let back = patch(&cluster, "one", json!({"spec": {"ipFamilyPolicy": "SingleStack"}})).await.unwrap();
    assert_eq!(back["spec"]["clusterIPs"], one["spec"]["clusterIPs"]);
    assert_eq!(held(&cluster).await.len(), 1);
}

#[tokio::test]
async fn node_ports_are_unique_and_released() {
    let cluster = cluster();
    let dns = json!([{"name": "tcp", "port": 53, "protocol": "TCP"}, {"name": "udp", "port": 53, "protocol": "UDP"}]);
    let shared = create(&cluster, "dns", json!({"type": "NodePort", "ports": dns})).await.unwrap();
    let ports = &shared["spec"]["ports"];
    assert_eq!(ports[0]["nodePort"], ports[1]["nodePort"], "one number serves both protocols");
    let taken = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": ports[0]["nodePort"]}]});
    let refused = refusal(&cluster, taken.clone()).await;
    assert!(
        refused.contains("spec.ports[0].nodePort") && refused.ends_with("provided port is already allocated")
    );
    let health = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": ports[0]["nodePort"]});
    let refused = create(&cluster, "refused", health).await.unwrap_err();
    let expected = format!(
        "failed to allocate requested HealthCheck NodePort {}: provided port is already allocated",
        ports[0]["nodePort"]
    );
    assert!(matches!(&refused, Error::Exhausted(message) if *message == expected), "{refused}");

    patch(&cluster, "dns", json!({"spec": {"type": "ClusterIP"}})).await.unwrap();
    create(&cluster, "taken", taken).await.unwrap();
    let balancer = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
    let balancer = create(&cluster, "balancer", balancer).await.unwrap();
    let health = balancer["spec"]["healthCheckNodePort"].as_i64().unwrap();
    assert!((30_000..=30_007).contains(&health));
    assert_ne!(balancer["spec"]["ports"][0]["nodePort"], health);
}

#[tokio::test]
async fn dynamic_allocation_avoids_the_lower_band() {
    let cluster = cluster_with(&["10.0.0.0/24"], "30000-30049");
    for n in 0..30 {
        let created = create(&cluster, &format!("s{n}"), json!({"type": "NodePort"})).await.unwrap();
        let ip = created["spec"]["clusterIP"].as_str().unwrap();
        let last: u8 = ip.rsplit_once('.').unwrap().1.parse().unwrap();
        assert!(last > 16, "{ip}");
        assert!(created["spec"]["ports"][0]["nodePort"].as_i64().unwrap() >= 30_016);
    }
    let below = create(&cluster, "below", json!({"clusterIP": "10.0.0.5"})).await.unwrap();
    assert_eq!(below["spec"]["clusterIP"], "10.0.0.5");
}

#[tokio::test]
async fn dry_run_allocates_nothing() {
    let cluster = cluster();
    let write = Write { dry_run: true, ..WRITE };
    for n in 0..20 {
        let spec = json!({"type": "NodePort"});
        let shown = cluster.create(&write, service(&format!("s{n}"), spec)).await.unwrap();
        let shown: Value = serde_json::from_slice(&shown.object.json).unwrap();
        assert!(shown["spec"]["clusterIP"].is_string() && shown["spec"]["ports"][0]["nodePort"].is_i64());
    }
    assert!(held(&cluster).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_creates_allocate_each_ip_once() {
    let cluster = cluster();
    for round in 0..5 {
        let start = |n| {
            let cluster = cluster.clone();
            Task::spawn("create", async move { create(&cluster, &format!("s{round}-{n}"), json!({})).await })
        };
        let creations: Vec<_> = (0..20).map(start).collect();
        let mut created = Vec::new();
        for creation in creations {
            created.push(creation.await.unwrap());
        }
        let (made, refused): (Vec<_>, Vec<_>) = created.into_iter().partition(Result::is_ok);
        let made: Vec<Value> = made.into_iter().map(Result::unwrap).collect();
        let addresses: BTreeSet<&str> =
            made.iter().map(|made| made["spec"]["clusterIP"].as_str().unwrap()).collect();
        assert_eq!((made.len(), addresses.len()), (14, 14), "each address once");
        for refused in refused {
            let message = refused.unwrap_err().to_string();
            let full = message.starts_with("failed to allocate a serviceIP for Service")
                && message.ends_with("range is full");
            assert!(full, "{message}");
        }
        for made in &made {
            delete(&cluster, made["metadata"]["name"].as_str().unwrap()).await;
        }
        assert!(held(&cluster).await.is_empty(), "all are released");
    }
}

/// A cluster with bootstrap objects, and 14 addresses.
async fn begun_cluster() -> Cluster {
    let network =
        ServiceNetwork::new(vec!["10.0.0.0/28".parse().unwrap()], "30000-30007".parse().unwrap()).unwrap();
    let store = memory::open(memory::Options::default());
    let registry = Registry::new(store, Clock::system(), Rng::seeded(7)).with_service_network(network);
    registry.bootstrap(&ServerInfo::default()).await.unwrap();
    registry.cluster("default").unwrap()
}

#[tokio::test]
async fn service_cidrs_of_users_are_used() {
    let cluster = begun_cluster().await;
    let elsewhere = json!({"clusterIP": "10.9.0.5"});
    let refused = refusal(&cluster, elsewhere.clone()).await;
    assert!(refused.ends_with("the provided network does not match the current range"), "{refused}");
    let write = Write { kind: &ServiceCidr, api_version: "networking.k8s.io/v1", namespace: "", ..WRITE };
    let range = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/28"]},
    });
    cluster.create(&write, range).await.unwrap();
    assert_eq!(create(&cluster, "wanted", elsewhere).await.unwrap()["spec"]["clusterIP"], "10.9.0.5");
    // The server itself holds one address of the first range.
    for index in 0..26 {
        create(&cluster, &format!("chosen-{index}"), json!({})).await.unwrap();
    }
    let refused = refusal(&cluster, json!({})).await;
    assert!(refused.ends_with("range is full"), "{refused}");
}

#[tokio::test]
async fn service_cidr_that_is_not_ready_is_not_used() {
    let cluster = begun_cluster().await;
    let write = Write { kind: &ServiceCidr, api_version: "networking.k8s.io/v1", namespace: "", ..WRITE };
    let range = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/28"]},
    });
    cluster.create(&write, range).await.unwrap();
    let unready = |mut range: Value| {
        range["status"] = json!({"conditions": [{
            "type": "Ready", "status": "False", "reason": "x", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]});
        Ok(range)
    };
    let status = Write { subresource: "status", ..write };
    cluster.update(&status, "more", &Change::Patch(&unready)).await.unwrap();
    let refused = refusal(&cluster, json!({"clusterIP": "10.9.0.5"})).await;
    assert!(refused.ends_with("the provided network does not match the current range"), "{refused}");
}

#[tokio::test]
async fn dry_run_guesses_node_ports_above_those_that_are_given() {
    let cluster = cluster();
    let write = Write { dry_run: true, ..WRITE };
    for (given, guess) in [(40_000, 40_001), (-1, 1)] {
        let ports = json!([{"name": "a", "port": 80, "nodePort": given}, {"name": "b", "port": 81}]);
        let created =
            cluster.create(&write, service("a", json!({"type": "NodePort", "ports": ports}))).await.unwrap();
        let object: Value = serde_json::from_slice(&created.object.json).unwrap();
        let found: Vec<_> =
            object["spec"]["ports"].as_array().unwrap().iter().map(|port| &port["nodePort"]).collect();
        assert_eq!(found, [&json!(given), &json!(guess)]);
    }
}
