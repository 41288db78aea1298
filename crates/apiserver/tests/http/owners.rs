//! Field ownership (managedFields) of objects that are written in several versions, compared with kube-apiserver
//! v1.36.4.
//!
//! `owners.json` has the requests and the recorded parts of its responses. Entries there are sorted by manager, and
//! have no times.

use http::Method;
use serde_json::{Value, json};

use crate::client::{Client, bytes};

const RECORDED: &str = include_str!("owners.json");

#[tokio::test]
async fn managed_fields_have_the_version_of_the_write() {
    let stories: Value = serde_json::from_str(RECORDED).unwrap();
    for story in stories.as_array().unwrap() {
        let client = Client::new().await;
        for (index, step) in story["steps"].as_array().unwrap().iter().enumerate() {
            let told = seen(&take(&client, step).await);
            assert_eq!(told, step["answer"], "{}, step {index}: {told:#}", story["title"]);
        }
    }
}

async fn take(client: &Client, step: &Value) -> Value {
    let text = |field: &str| step[field].as_str().unwrap();
    let method = Method::from_bytes(text("method").as_bytes()).unwrap();
    let headers = [("content-type", text("type"))];
    let response = client.send(method, text("path"), &headers, step["body"].to_string()).await;
    serde_json::from_slice(&bytes(response).await).unwrap()
}

/// The part of a response that is compared.
fn seen(answer: &Value) -> Value {
    if answer["kind"] == "Status" {
        return json!({"code": answer["code"], "message": answer["message"]});
    }
    let mut seen = answer.clone();
    let metadata = seen["metadata"].as_object_mut().unwrap();
    let mut owners = metadata.remove("managedFields").unwrap_or(json!([]));
    metadata.retain(|name, _| matches!(name.as_str(), "labels" | "annotations"));
    let owners = owners.as_array_mut().unwrap();
    for entry in &mut *owners {
        entry.as_object_mut().unwrap().retain(|name, _| name != "time" && name != "fieldsType");
    }
    let order = ["manager", "operation", "apiVersion", "subresource"];
    owners.sort_by_key(|entry| order.map(|field| entry[field].to_string()));
    seen["owners"] = owners.as_slice().into();
    seen
}

/// The fields that the creator of an object owns, as kube-apiserver's field manager gives them.
#[tokio::test]
async fn creator_owns_pointers_to_structs_and_raw_data_as_a_whole() {
    let client = Client::new().await;
    let binding = json!({
        "policyName": "a", "validationActions": ["Deny"], "paramRef": {"name": "p", "parameterNotFoundAction": "Deny"},
    });
    let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    for (path, body, expected) in [
        (
            "/apis/networking.k8s.io/v1/ipaddresses",
            json!({"metadata": {"name": "1.2.3.4"}, "spec": {"parentRef": {"resource": "services", "name": "x"}}}),
            json!({"f:spec": {"f:parentRef": {".": {}, "f:name": {}, "f:resource": {}}}}),
        ),
        (
            bindings,
            json!({"metadata": {"name": "a"}, "spec": binding}),
            json!({"f:spec": {
                "f:paramRef": {},
                "f:policyName": {},
                "f:validationActions": {".": {}, "v:\"Deny\"": {}},
            }}),
        ),
        (
            "/apis/apps/v1/namespaces/default/controllerrevisions",
            json!({"metadata": {"name": "a"}, "data": {"a": {"b": [1]}}, "revision": 1}),
            json!({"f:data": {}, "f:revision": {}}),
        ),
    ] {
        let (code, created) = client.json(Method::POST, path, body).await;
        assert_eq!(code, 201, "{created}");
        assert_eq!(created["metadata"]["managedFields"][0]["fieldsV1"], expected, "{path}");
    }
}
