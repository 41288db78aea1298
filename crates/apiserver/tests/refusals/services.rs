//! Dry runs that allocate addresses and ports of services.

use http::Method;
use serde_json::{Value, json};

use crate::support::{Client, MERGE};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const TAKEN: &str = "spec.ports[0].nodePort: Invalid value: 30077: provided port is already allocated";

fn service(name: &str, node_port: i64) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": node_port}]}})
}

#[tokio::test]
async fn dry_run_with_an_allocated_node_port_is_rejected() {
    let client = Client::new().await;
    assert_eq!(client.post(SERVICES, service("a", 30077)).await.0, 201);
    assert_eq!(client.post(SERVICES, service("b", 30078)).await.0, 201);
    let dry = format!("{SERVICES}?dryRun=All");
    let (code, answer) = client.post(&dry, service("c", 30077)).await;
    assert_eq!(
        (code, answer["details"]["causes"][0]["field"].as_str()),
        (422, Some("spec.ports[0].nodePort"))
    );
    assert_eq!(answer["message"], format!("Service \"c\" is invalid: {TAKEN}"));
    let ports = json!({"spec": {"ports": [{"port": 80, "nodePort": 30077}]}});
    let (code, answer) = client.send(Method::PATCH, &format!("{SERVICES}/b?dryRun=All"), MERGE, ports).await;
    assert_eq!((code, &answer["message"]), (422, &json!(format!("Service \"b\" is invalid: {TAKEN}"))));
    // One that is chosen is free, and one's own is no obstacle.
    let (code, answer) = client.post(&dry, service("c", 0)).await;
    assert_eq!(code, 201, "{answer}");
    let same = json!({"spec": {"ports": [{"port": 81, "nodePort": 30078}]}});
    let (code, _) = client.send(Method::PATCH, &format!("{SERVICES}/b?dryRun=All"), MERGE, same).await;
    assert_eq!(code, 200);
}

#[tokio::test]
async fn dry_run_creation_by_put_has_no_resource_version() {
    let client = Client::new().await;
    let path = format!("{SERVICES}/new?dryRun=All");
    let (code, answer) = client.send(Method::PUT, &path, "application/json", service("new", 30079)).await;
    assert_eq!((code, answer["metadata"].get("resourceVersion")), (201, None), "{answer}");
}
