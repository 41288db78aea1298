//! The admin API for clusters, and responses to and cost of requests to unknown and deleted clusters.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use coracle_apiserver::{CredentialScope, Identity, PeerIdentity};
use coracle_registry::ServerInfo;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use support::Client;
use tower::ServiceExt;

const JSON: &str = "application/json";

/// Nothing here takes long; a longer wait is for something that does not come.
const LIMIT: Duration = Duration::from_secs(30);

/// Cycles of creation and deletion.
const CYCLES: usize = 1_000;

async fn operator() -> Client {
    let client = Client::new().await;
    client.server.bootstrap(&ServerInfo::default()).await.unwrap();
    client
}

/// Another client of the same server.
fn named(client: &Client, name: &str, groups: &[&str], scope: CredentialScope) -> Client {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    let identity = Arc::new(Identity { name: name.to_owned(), groups, ..Identity::default() });
    Client { server: client.server.clone(), identity, scope }
}

async fn get(client: &Client, path: &str) -> (u16, Value) {
    client.send(Method::GET, path, JSON, Value::Null).await
}

async fn delete(client: &Client, path: &str) -> (u16, Value) {
    client.send(Method::DELETE, path, JSON, Value::Null).await
}

async fn patch(client: &Client, path: &str, body: Value) -> (u16, Value) {
    client.send(Method::PATCH, path, JSON, body).await
}

async fn create(client: &Client, body: Value) -> Value {
    let (code, created) = client.post("/admin/clusters", body).await;
    assert_eq!(code, 201, "{created}");
    created
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

#[tokio::test]
async fn unknown_cluster_is_not_found_for_the_operator_and_costs_nothing() {
    let client = operator().await;
    let registry = client.server.registry().clone();
    let before = (client.server.cached_clusters(), registry.held_clusters());
    for number in 0..200 {
        let (code, status) = get(&client, &format!("/clusters/unknown-{number}/api/v1/pods")).await;
        assert_eq!((code, &status["reason"]), (404, &json!("NotFound")));
        let expected = json!({"kind": "clusters", "name": format!("unknown-{number}")});
        assert_eq!(status["details"], expected);
        assert_eq!(status["message"], format!("cluster \"unknown-{number}\" not found"));
    }
    assert_eq!((client.server.cached_clusters(), registry.held_clusters()), before);
}

#[tokio::test]
async fn unknown_cluster_cannot_be_told_from_a_foreign_one() {
    let client = operator().await;
    create(&client, json!({"id": "t1"})).await;
    let scopes = [CredentialScope::DefaultCluster, CredentialScope::of_cluster("t2", "u")];
    for scope in scopes {
        let foreign = named(&client, "jane", &["system:masters"], scope);
        let existing = get(&foreign, "/clusters/t1/api/v1/pods").await;
        assert_eq!(existing.0, 401);
        assert_eq!(get(&foreign, "/clusters/unknown/api/v1/pods").await, existing);
    }
}

#[tokio::test]
async fn cluster_is_created_changed_and_deleted() {
    let client = operator().await;
    let created = create(&client, json!({"id": "t1", "limits": {"maxObjects": 5}})).await;
    assert_eq!(created["limits"], json!({"maxBytes": 1 << 30, "maxObjects": 5}));
    assert_eq!(created["usage"], json!({"bytes": 0, "objects": 0}));
    assert_eq!(created["uid"].as_str().unwrap().len(), 36);
    let (code, status) = client.post("/admin/clusters", json!({"id": "t1"})).await;
    assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));

    let maps = "/clusters/t1/api/v1/namespaces/default/configmaps";
    assert_eq!(client.post(maps, config_map("a")).await.0, 201);
    let (_, list) = get(&client, "/admin/clusters").await;
    let ids: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
    assert_eq!(ids, ["default", "t1"]);
    let (_, shown) = get(&client, "/admin/clusters/t1").await;
    assert_eq!((&shown["usage"]["objects"], &shown["uid"]), (&json!(1), &created["uid"]));

    let (code, changed) = patch(&client, "/admin/clusters/t1", json!({"limits": {"maxBytes": null}})).await;
    assert_eq!((code, &changed["limits"]), (200, &json!({"maxBytes": null, "maxObjects": 5})));

    assert_eq!(delete(&client, "/admin/clusters/t1").await.0, 200);
    assert_eq!(delete(&client, "/admin/clusters/t1").await.0, 404);
    assert_eq!(get(&client, "/admin/clusters/t1").await.0, 404);
    assert_eq!(get(&client, maps).await.0, 404);
    let again = create(&client, json!({"id": "t1"})).await;
    assert_ne!(again["uid"], created["uid"]);
    assert_eq!(get(&client, maps).await.1["items"], json!([]), "nothing is revived");
}

#[tokio::test]
async fn malformed_requests_are_rejected() {
    let client = operator().await;
    for (body, code) in [
        (json!({"id": "Not_An_Id"}), 422),
        (json!({"id": ""}), 422),
        (json!({"id": "default"}), 409),
        (json!({"name": "t1"}), 400),
        (json!({"id": "t1", "limits": {"maxBytes": -1}}), 400),
        (json!({"id": "t1", "limits": {"maxPods": 1}}), 400),
        (Value::Null, 400),
    ] {
        assert_eq!(client.post("/admin/clusters", body.clone()).await.0, code, "{body}");
    }
    assert_eq!(delete(&client, "/admin/clusters/default").await.0, 403);
    assert_eq!(delete(&client, "/admin/clusters").await.0, 405);
    assert_eq!(client.post("/admin/clusters/t1", json!({})).await.0, 405);
    create(&client, json!({"id": "t1"})).await;
    assert_eq!(get(&client, "/clusters/t1/admin/clusters").await.0, 404, "only on plain paths");
}

#[tokio::test]
async fn only_the_operator_uses_the_admin_api() {
    let client = operator().await;
    let masters = named(&client, "jane", &["system:masters"], CredentialScope::DefaultCluster);
    for path in ["/admin/clusters", "/admin/clusters/default", "/admin/clusters/unknown"] {
        for method in [Method::GET, Method::POST, Method::PATCH, Method::DELETE] {
            let (code, _) = masters.send(method.clone(), path, JSON, json!({"id": "t1"})).await;
            assert_eq!(code, 403, "{method} {path}");
        }
    }
    // The operator who impersonates is a user of one cluster.
    let mut request = Request::get("/admin/clusters").body(Full::from("")).unwrap();
    request.headers_mut().insert("impersonate-user", "root".parse().unwrap());
    request.headers_mut().insert("impersonate-group", "system:masters".parse().unwrap());
    request.extensions_mut().insert(PeerIdentity(Some(client.identity.clone())));
    request.extensions_mut().insert(CredentialScope::AllClusters);
    let response = client.server.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 403);
    assert_eq!(get(&client, "/admin/clusters").await.1["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn full_cluster_answers_forbidden() {
    let client = operator().await;
    create(&client, json!({"id": "t1", "limits": {"maxObjects": 1}})).await;
    let maps = "/clusters/t1/api/v1/namespaces/default/configmaps";
    assert_eq!(client.post(maps, config_map("a")).await.0, 201);
    let (code, status) = client.post(maps, config_map("b")).await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("cluster \"t1\" would exceed its limit of 1 objects"), "{message}");
    assert!(message.contains("coracle cluster set-limits t1"), "{message}");
    assert_eq!(delete(&client, &format!("{maps}/a")).await.0, 200);
    assert_eq!(client.post(maps, config_map("b")).await.0, 201);
}

#[tokio::test]
async fn watch_ends_when_its_cluster_is_deleted() {
    let client = operator().await;
    create(&client, json!({"id": "t1"})).await;
    let path = "/clusters/t1/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0";
    let mut request = Request::get(path).body(Full::from("")).unwrap();
    request.extensions_mut().insert(PeerIdentity(Some(client.identity.clone())));
    request.extensions_mut().insert(CredentialScope::AllClusters);
    let watch = client.server.clone().oneshot(request).await.unwrap();
    assert_eq!(watch.status(), 200);
    assert_eq!(delete(&client, "/admin/clusters/t1").await.0, 200);
    tokio::time::timeout(LIMIT, watch.into_body().collect()).await.unwrap().unwrap();
}

#[tokio::test]
async fn watch_of_all_clusters_tells_that_base_objects_are_no_longer_changed() {
    let client = operator().await;
    create(&client, json!({"id": "t1"})).await;
    let all = "/clusters/*/api/v1/namespaces";
    let revision = get(&client, all).await.1["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut request =
        Request::get(format!("{all}?watch=true&resourceVersion={revision}")).body(Full::from("")).unwrap();
    request.extensions_mut().insert(PeerIdentity(Some(client.identity.clone())));
    request.extensions_mut().insert(CredentialScope::AllClusters);
    let mut events = client.server.clone().oneshot(request).await.unwrap().into_body();
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    client.send(Method::PATCH, "/clusters/t1/api/v1/namespaces/default", support::MERGE, labelled).await;
    client.post("/clusters/t1/api/v1/namespaces", json!({"metadata": {"name": "own"}})).await;
    assert_eq!(delete(&client, "/admin/clusters/t1").await.0, 200);
    let mut lines = Vec::new();
    while lines.len() < 4 {
        let frame = tokio::time::timeout(LIMIT, events.frame()).await.unwrap().unwrap().unwrap();
        let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    let told: Vec<_> = lines
        .iter()
        .map(|line| (&line["type"], &line["object"]["metadata"]["name"], &line["clusterDeleted"]))
        .map(|(event, name, deleted)| {
            format!("{} {} {deleted}", event.as_str().unwrap(), name.as_str().unwrap())
        })
        .collect();
    assert_eq!(told, ["MODIFIED default null", "ADDED own null", "DELETED default true", "DELETED own null"]);
}

#[tokio::test]
async fn deletion_frees_every_cache_of_the_cluster() {
    let client = operator().await;
    let before = client.server.cached_clusters();
    let created = create(&client, json!({"id": "t1"})).await;
    let scope = CredentialScope::of_cluster("t1", created["uid"].as_str().unwrap());
    let user = named(&client, "jane", &["system:authenticated"], scope.clone());
    assert_eq!(get(&user, "/clusters/t1/api/v1/pods").await.0, 403);
    let node = named(&client, "system:node:n", &["system:nodes"], scope);
    get(&node, "/clusters/t1/api/v1/namespaces/default/secrets/s").await;
    assert!(client.server.cached_clusters() > before, "roles, the node's graph and users are cached");
    assert_eq!(delete(&client, "/admin/clusters/t1").await.0, 200);
    assert_eq!(client.server.cached_clusters(), before);
}

#[tokio::test]
async fn cycles_of_creation_and_deletion_leave_no_cache_entry() {
    let client = operator().await;
    let registry = client.server.registry().clone();
    let before = client.server.cached_clusters();
    for cycle in 0..CYCLES {
        let id = format!("t{cycle}");
        let created = create(&client, json!({"id": id})).await;
        let scope = CredentialScope::of_cluster(&id, created["uid"].as_str().unwrap());
        let maps = format!("/clusters/{id}/api/v1/namespaces/default/configmaps");
        assert_eq!(client.post(&maps, config_map("a")).await.0, 201);
        if cycle % 50 == 0 {
            let user = named(&client, "jane", &["system:authenticated"], scope);
            assert_eq!(get(&user, &maps).await.0, 403);
        }
        assert_eq!(delete(&client, &format!("/admin/clusters/{id}")).await.0, 200);
    }
    assert_eq!(client.server.cached_clusters(), before);
    while registry.held_clusters() != (0, 0, 0) {
        assert_eq!(get(&client, "/clusters/t0/api/v1/pods").await.0, 404);
        tokio::task::yield_now().await;
    }
}
