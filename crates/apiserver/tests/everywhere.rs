//! One list and one watch for the objects of all clusters.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::sync::Arc;

use coracle_apiserver::{CredentialScope, Identity, PeerIdentity};
use coracle_registry::ServerInfo;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use support::Client;
use tower::ServiceExt;

const JSON: &str = "application/json";

/// A server whose clusters have base objects, as in production. The namespace `default` of the default
/// cluster is older, so it is that cluster's own.
async fn server() -> Client {
    let client = Client::new().await;
    client.server.bootstrap(&ServerInfo::default()).await.unwrap();
    for id in ["blue", "green"] {
        assert_eq!(client.post("/admin/clusters", json!({"id": id})).await.0, 201);
    }
    client
}

async fn make(client: &Client, cluster: &str, name: &str) {
    let path = format!("/clusters/{cluster}/api/v1/namespaces");
    let (code, body) = client.post(&path, json!({"metadata": {"name": name}})).await;
    assert_eq!(code, 201, "{body}");
}

fn places(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap().iter();
    let place = |item: &Value| {
        format!(
            "{}:{}",
            item["cluster"].as_str().unwrap(),
            item["object"]["metadata"]["name"].as_str().unwrap()
        )
    };
    items.map(place).collect()
}

const SHARED: [&str; 4] = ["*:default", "*:kube-node-lease", "*:kube-public", "*:kube-system"];

#[tokio::test]
async fn one_list_has_the_objects_of_all_clusters() {
    let client = server().await;
    for (cluster, name) in [("blue", "b1"), ("blue", "b2"), ("default", "d"), ("green", "g")] {
        make(&client, cluster, name).await;
    }
    let told = json!({"metadata": {"labels": {"a": "b"}}});
    let path = "/clusters/green/api/v1/namespaces/kube-public";
    client.send(Method::PATCH, path, support::MERGE, told).await;
    let path = "/clusters/*/api/v1/namespaces";
    let (code, list) = client.send(Method::GET, path, JSON, Value::Null).await;
    assert_eq!(code, 200, "{list}");
    let own = ["blue:b1", "blue:b2", "default:d", "default:default", "green:g", "green:kube-public"];
    let expected: Vec<_> = SHARED.into_iter().chain(own).collect();
    assert_eq!(places(&list), expected, "the one that was changed is the cluster's own");

    let mut paged = Vec::new();
    let mut token = String::new();
    loop {
        let path = format!("{path}?limit=2&continue={token}");
        let (code, page) = client.send(Method::GET, &path, JSON, Value::Null).await;
        assert_eq!(code, 200, "{page}");
        paged.extend(places(&page));
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(paged, expected);
}

#[tokio::test]
async fn deleted_base_object_is_listed_as_hidden() {
    let client = server().await;
    let path = "/clusters/blue/apis/rbac.authorization.k8s.io/v1/clusterroles/edit";
    let (code, body) = client.send(Method::DELETE, path, JSON, Value::Null).await;
    assert_eq!(code, 200, "{body}");
    let path = "/clusters/*/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let (_, list) = client.send(Method::GET, path, JSON, Value::Null).await;
    assert_eq!(list["hidden"], json!([{"cluster": "blue", "place": "edit"}]));
}

#[tokio::test]
async fn one_watch_has_events_of_all_clusters() {
    let client = server().await;
    let (_, list) = client.send(Method::GET, "/clusters/*/api/v1/namespaces", JSON, Value::Null).await;
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("/clusters/*/api/v1/namespaces?watch=true&resourceVersion={revision}");
    let mut request = Request::get(path).body(Full::<bytes::Bytes>::default()).unwrap();
    request.extensions_mut().insert(PeerIdentity(Some(client.identity.clone())));
    request.extensions_mut().insert(client.scope.clone());
    let mut events = client.server.clone().oneshot(request).await.unwrap().into_body();

    make(&client, "blue", "b").await;
    make(&client, "default", "d").await;
    let told = json!({"metadata": {"labels": {"a": "b"}}});
    let path = "/clusters/green/api/v1/namespaces/default";
    client.send(Method::PATCH, path, support::MERGE, told).await;

    let mut seen = Vec::new();
    while seen.len() < 3 {
        let frame = events.frame().await.unwrap().unwrap().into_data().unwrap();
        for line in frame.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_slice(line).unwrap();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let name = text(&event["object"]["metadata"]["name"]);
            seen.push((text(&event["type"]), text(&event["cluster"]), name));
        }
    }
    let expected = [("ADDED", "blue", "b"), ("ADDED", "default", "d"), ("MODIFIED", "green", "default")];
    let expected = expected.map(|(kind, cluster, name)| (kind.into(), cluster.into(), name.into()));
    assert_eq!(seen, expected, "of the beginning, a first change is a change");
}

#[tokio::test]
async fn all_clusters_are_read_only_and_for_administrators_only() {
    let client = server().await;
    let body = json!({"metadata": {"name": "n"}});
    let (code, _) = client.post("/clusters/*/api/v1/namespaces", body).await;
    assert_eq!(code, 405);
    for path in ["/clusters/*/api/v1/namespaces/default", "/clusters/*/api/v1/namespaces/default/pods"] {
        let (code, body) = client.send(Method::GET, path, JSON, Value::Null).await;
        assert!(code == 404 || code == 405, "{path}: {code} {body}");
    }
    let (code, _) = client.send(Method::GET, "/clusters/*/apis", JSON, Value::Null).await;
    assert_eq!(code, 404);

    let identity = Identity { name: "jane".into(), ..Identity::default() };
    let scope = CredentialScope::DefaultCluster;
    let jane = Client { server: client.server.clone(), identity: Arc::new(identity), scope: scope.clone() };
    let binding = json!({
        "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    client.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    assert_eq!(jane.send(Method::GET, "/api/v1/namespaces", JSON, Value::Null).await.0, 200);
    assert_eq!(jane.send(Method::GET, "/clusters/*/api/v1/namespaces", JSON, Value::Null).await.0, 403);
    // The group alone does not make an operator.
    let master = Client { server: client.server.clone(), identity: client.identity.clone(), scope };
    assert_eq!(master.send(Method::GET, "/api/v1/namespaces", JSON, Value::Null).await.0, 200);
    assert_eq!(master.send(Method::GET, "/clusters/*/api/v1/namespaces", JSON, Value::Null).await.0, 403);
    assert_eq!(master.send(Method::GET, "/clusters/blue/api/v1/namespaces", JSON, Value::Null).await.0, 401);
}
