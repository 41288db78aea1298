//! Rejected updates: which errors kube-apiserver reports, and in which order.

use http::Method;
use serde_json::{Value, json};

use crate::support::{Client, MERGE};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const CLASSES: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
const VOLUMES: &str = "/api/v1/persistentvolumes";

/// The fields and messages of a response that rejects an object.
fn causes(response: &Value) -> Vec<(&str, &str)> {
    let causes = response.pointer("/details/causes").and_then(Value::as_array);
    causes
        .into_iter()
        .flatten()
        .map(|cause| {
            (cause["field"].as_str().unwrap_or_default(), cause["message"].as_str().unwrap_or_default())
        })
        .collect()
}

/// Creates an object, sends a merge patch, and compares the fields of the errors.
async fn check(path: &str, object: Value, patch: Value, fields: &[&str]) -> Value {
    let client = Client::new().await;
    let (code, created) = client.post(path, object).await;
    assert_eq!(code, 201, "{created}");
    let name = created["metadata"]["name"].as_str().unwrap();
    let (_, response) = client.send(Method::PATCH, &format!("{path}/{name}"), MERGE, patch.clone()).await;
    let found: Vec<&str> = causes(&response).iter().map(|(field, _)| *field).collect();
    assert_eq!(found, fields, "{patch}: {response}");
    response
}

fn service() -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
}

#[tokio::test]
async fn service_update_reports_changed_addresses_first() {
    let patch = json!({"spec": {"clusterIP": "None"}});
    let response = check(SERVICES, service(), patch, &["spec.clusterIPs[0]", "spec.clusterIPs[0]"]).await;
    assert!(causes(&response)[0].1.ends_with("may not change once set"), "{response}");
}

#[tokio::test]
async fn service_update_reports_a_load_balancer_class_twice() {
    let patch = json!({"spec": {"loadBalancerClass": "a.b/c"}});
    check(SERVICES, service(), patch, &["spec.loadBalancerClass", "spec.loadBalancerClass"]).await;
}

#[tokio::test]
async fn empty_family_policy_of_a_service_is_rejected() {
    let patch = json!({"spec": {"ipFamilyPolicy": ""}});
    check(SERVICES, service(), patch, &["spec.ipFamilyPolicy"]).await;
}

#[tokio::test]
async fn finalizers_are_checked_with_the_change_and_then_with_the_object() {
    let fields = ["metadata.finalizers", "metadata.finalizers[0]"].repeat(2);
    let patch = json!({"metadata": {"finalizers": ["b".repeat(64)]}});
    let class = json!({"metadata": {"name": "a"}, "driverName": "a.b", "parameters": {"a": "b"}});
    check(CLASSES, class, patch.clone(), &fields).await;
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    check(CLAIMS, json!({"metadata": {"name": "a"}, "spec": spec}), patch, &fields).await;
}

#[tokio::test]
async fn definition_update_reports_fixed_fields_before_its_status() {
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let spec = json!({"group": "x.example.com", "scope": "Namespaced", "names": {"plural": "ms", "kind": "M"}, "versions": [version]});
    let definition = json!({"metadata": {"name": "ms.x.example.com"}, "spec": spec});
    let patch = json!({"spec": {"group": "y.example.com", "versions": [{"name": "v2", "served": true, "storage": true, "schema": version["schema"]}]}});
    let fields = ["spec.group", "status.storedVersions[0]"];
    check(DEFINITIONS, definition.clone(), patch, &fields).await;
    let twice = json!({"spec": {"versions": [version, version]}});
    check(DEFINITIONS, definition, twice, &["spec.versions", "spec.versions", "status.storedVersions"]).await;
}

#[tokio::test]
async fn revision_without_data_has_only_changed() {
    let revision = json!({"metadata": {"name": "a"}, "revision": 1, "data": {"a": 1}});
    let response = check(REVISIONS, revision, json!({"data": null}), &["data"]).await;
    assert!(causes(&response)[0].1.ends_with("field is immutable"), "{response}");
}

#[tokio::test]
async fn volume_affinity_may_lose_the_key_of_a_label() {
    let affinity = |requirement: Value| json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}});
    let spec = json!({
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/a"},
        "nodeAffinity": affinity(json!({"key": "a", "operator": "In", "values": ["b"]})),
    });
    let volume = json!({"metadata": {"name": "a"}, "spec": spec});
    let keyless = json!({"spec": {"nodeAffinity": affinity(json!({"operator": "In", "values": ["b"]}))}});
    let key = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key";
    // The messages about the empty key, for the update and for the whole object; none says that it may not change.
    check(VOLUMES, volume.clone(), keyless, &[key; 4]).await;
    let other =
        json!({"spec": {"nodeAffinity": affinity(json!({"key": "c", "operator": "In", "values": ["b"]}))}});
    check(VOLUMES, volume, other, &["nodeAffinity"]).await;
}
