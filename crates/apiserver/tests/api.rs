//! The API over the service itself: every verb on a plain kind, as an administrator.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::Arc;

use bytes::Bytes;
use coracle_apiserver::{ApiServer, CredentialScope, HealthChecks, Identity, PeerIdentity, ResponseBody};
use coracle_base::Clock;
use coracle_registry::Registry;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

struct Client {
    server: ApiServer,
    identity: Option<Arc<Identity>>,
}

async fn client() -> Client {
    let health = HealthChecks::new(CancellationToken::new());
    let admin =
        Identity { name: "admin".into(), groups: vec!["system:masters".into()], ..Identity::default() };
    let client = Client {
        server: ApiServer::new(health, Registry::in_memory(), Clock::system()),
        identity: Some(Arc::new(admin)),
    };
    let namespace = json!({"metadata": {"name": "default"}});
    // As long as there are no namespaces, nothing is missing.
    client.json(Method::POST, "/api/v1/namespaces", namespace).await;
    client
}

impl Client {
    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<ResponseBody> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Full::new(body.into())).unwrap();
        request.extensions_mut().insert(PeerIdentity(self.identity.clone()));
        request.extensions_mut().insert(CredentialScope::AllClusters);
        self.server.clone().oneshot(request).await.unwrap()
    }

    async fn json(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).unwrap() };
        answer(self.send(method, path, &[("content-type", "application/json")], body).await).await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.json(Method::GET, path, Value::Null).await
    }

    async fn patch(&self, path: &str, kind: &str, body: Value) -> (u16, Value) {
        let headers = [("content-type", kind)];
        answer(self.send(Method::PATCH, path, &headers, serde_json::to_vec(&body).unwrap()).await).await
    }
}

async fn answer(response: Response<ResponseBody>) -> (u16, Value) {
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))))
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"}})
}

#[tokio::test]
async fn objects_are_created_read_changed_and_deleted() {
    let client = client().await;
    let (code, created) = client.json(Method::POST, CONFIG_MAPS, config_map("a")).await;
    assert_eq!(code, 201, "{created}");
    let (code, again) = client.json(Method::POST, CONFIG_MAPS, config_map("a")).await;
    assert_eq!((code, &again["message"]), (409, &json!("configmaps \"a\" already exists")));
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(client.get(&path).await, (200, created.clone()));

    let mut changed = created.clone();
    changed["data"]["key"] = json!("changed");
    let (code, updated) = client.json(Method::PUT, &path, changed.clone()).await;
    assert_eq!((code, &updated["data"]["key"]), (200, &json!("changed")), "{updated}");
    let (code, stale) = client.json(Method::PUT, &path, changed).await;
    assert_eq!((code, &stale["reason"]), (409, &json!("Conflict")));

    for (kind, body) in [
        ("application/merge-patch+json", json!({"data": {"merge": "x"}})),
        ("application/strategic-merge-patch+json", json!({"data": {"strategic": "x"}})),
        ("application/json-patch+json", json!([{"op": "add", "path": "/data/json", "value": "x"}])),
    ] {
        let (code, patched) = client.patch(&path, kind, body).await;
        assert_eq!(code, 200, "{kind}: {patched}");
    }
    let apply =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"applied": "x"}});
    let (code, refused) = client.patch(&path, "application/apply-patch+yaml", apply.clone()).await;
    assert_eq!((code, &refused["reason"]), (422, &json!("Invalid")), "{refused}");
    let applied =
        client.patch(&format!("{path}?fieldManager=me"), "application/apply-patch+yaml", apply).await;
    assert_eq!(applied.0, 200, "{}", applied.1);
    let (_, object) = client.get(&path).await;
    let keys: Vec<&String> = object["data"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["applied", "json", "key", "merge", "strategic"]);

    let (code, deleted) =
        client.json(Method::DELETE, &path, json!({"propagationPolicy": "Background"})).await;
    assert_eq!((code, &deleted["status"]), (200, &json!("Success")), "{deleted}");
    let (code, missing) = client.get(&path).await;
    assert_eq!((code, &missing["message"]), (404, &json!("configmaps \"a\" not found")));
}

#[tokio::test]
async fn lists_come_as_objects_tables_and_metadata() {
    let client = client().await;
    for name in ["a", "b", "c"] {
        client.json(Method::POST, CONFIG_MAPS, config_map(name)).await;
    }
    let (_, list) = client.get("/api/v1/configmaps?limit=2").await;
    assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&json!("ConfigMapList"), 2));
    assert_eq!(list["metadata"]["remainingItemCount"], 1);
    assert!(list["items"][0].get("kind").is_none(), "items of built-in kinds do not repeat their type");
    let token = list["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = client.get(&format!("/api/v1/configmaps?limit=2&continue={token}")).await;
    assert_eq!(rest["items"][0]["metadata"]["name"], "c");
    let (_, one) = client.get(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Db")).await;
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    let (code, refused) = client.get(&format!("{CONFIG_MAPS}?fieldSelector=spec.x%3Db")).await;
    assert_eq!(
        (code, &refused["message"]),
        (
            400,
            &json!(
                "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )
        )
    );

    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let (_, table) = answer(client.send(Method::GET, CONFIG_MAPS, &table, "").await).await;
    assert_eq!((&table["kind"], &table["columnDefinitions"][1]["name"]), (&json!("Table"), &json!("Data")));
    assert_eq!((&table["rows"][2]["cells"][0], &table["rows"][2]["cells"][1]), (&json!("c"), &json!(1)));
    let metadata = [("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")];
    let (_, metadata) = answer(client.send(Method::GET, CONFIG_MAPS, &metadata, "").await).await;
    assert_eq!(metadata["kind"], "PartialObjectMetadataList");
    assert!(metadata["items"][0].get("data").is_none());

    let (code, deleted) = client.json(Method::DELETE, CONFIG_MAPS, Value::Null).await;
    assert_eq!((code, deleted["items"].as_array().unwrap().len()), (200, 3));
    let (_, empty) = client.get(CONFIG_MAPS).await;
    assert_eq!(empty["items"], json!([]));
}

async fn lines(body: &mut ResponseBody, count: usize) -> Vec<Value> {
    let mut text = String::new();
    while text.lines().count() < count {
        let frame = body.frame().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn watch_sends_the_state_and_then_changes() {
    let client = client().await;
    client.json(Method::POST, CONFIG_MAPS, config_map("a")).await;
    let query =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let response = client.send(Method::GET, &format!("{CONFIG_MAPS}?{query}"), &[], "").await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    let mut body = response.into_body();
    let events = lines(&mut body, 2).await;
    assert_eq!(
        (&events[0]["type"], &events[0]["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("a"))
    );
    let bookmark = &events[1];
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");

    client.json(Method::POST, CONFIG_MAPS, config_map("b")).await;
    client.json(Method::DELETE, &format!("{CONFIG_MAPS}/a"), Value::Null).await;
    let mut events = lines(&mut body, 1).await;
    if events.len() < 2 {
        events.extend(lines(&mut body, 1).await);
    }
    let told: Vec<_> = events
        .iter()
        .map(|event| (event["type"].clone(), event["object"]["metadata"]["name"].clone()))
        .collect();
    assert_eq!(told, [(json!("ADDED"), json!("b")), (json!("DELETED"), json!("a"))]);
    let (code, refused) = client.get(&format!("{CONFIG_MAPS}?watch=true&sendInitialEvents=true")).await;
    assert_eq!(code, 422, "{refused}");
}

#[tokio::test]
async fn errors_are_returned_as_status() {
    let client = client().await;
    for (path, body, code) in [
        (CONFIG_MAPS, "{", 400),
        (CONFIG_MAPS, r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"}}"#, 400),
        (CONFIG_MAPS, r#"{"metadata":{"name":"A B"}}"#, 422),
        (CONFIG_MAPS, r#"{"metadata":{"name":"a","namespace":"other"}}"#, 400),
        ("/api/v1/namespaces/default/nothing", "{}", 404),
        ("/api/v9/namespaces/default/configmaps", "{}", 404),
        ("/api/v1/configmaps", "{}", 405),
        ("/api/v1/namespaces/default/configmaps/../configmaps", "{}", 404),
    ] {
        let response = client.send(Method::POST, path, &[("content-type", "application/json")], body).await;
        let (found, status) = answer(response).await;
        assert_eq!(
            (found, &status["kind"], &status["code"]),
            (code, &json!("Status"), &json!(code)),
            "{path} {body}: {status}"
        );
    }
    let unknown = json!({"metadata": {"name": "x"}, "dta": {}});
    let strict =
        client.json(Method::POST, &format!("{CONFIG_MAPS}?fieldValidation=Strict"), unknown.clone()).await;
    assert_eq!(strict.0, 400);
    assert!(strict.1["message"].as_str().unwrap().contains("unknown field \"dta\""), "{}", strict.1);
    let headers = [("content-type", "application/json")];
    let warned =
        client.send(Method::POST, CONFIG_MAPS, &headers, serde_json::to_vec(&unknown).unwrap()).await;
    assert_eq!(warned.status(), 201);
    assert_eq!(warned.headers()[header::WARNING], "299 - \"unknown field \\\"dta\\\"\"");
    let wrong = client.send(Method::POST, CONFIG_MAPS, &[("content-type", "text/plain")], "{}").await;
    assert_eq!(wrong.status(), 415);
    let wrong = client.send(Method::GET, CONFIG_MAPS, &[("accept", "text/html")], "").await;
    assert_eq!(wrong.status(), 406);
    let large = client.send(Method::POST, CONFIG_MAPS, &headers, vec![b' '; 4 << 20]).await;
    assert_eq!(large.status(), 413);
}

#[tokio::test]
async fn only_administrators_are_authorized() {
    let mut client = client().await;
    let user =
        Identity { name: "user".into(), groups: vec!["system:authenticated".into()], ..Identity::default() };
    for (identity, code) in [(None, 401), (Some(Arc::new(user)), 403)] {
        client.identity = identity;
        for path in [CONFIG_MAPS, "/api", "/apis", "/version", "/api/v1"] {
            assert_eq!(client.get(path).await.0, code, "{path}");
        }
        assert_eq!(client.get("/readyz").await.0, 200);
    }
}

#[tokio::test]
async fn some_namespaces_cannot_be_deleted() {
    let client = client().await;
    let (code, refused) = client.json(Method::DELETE, "/api/v1/namespaces/default", Value::Null).await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")), "{refused}");
    client.json(Method::POST, "/api/v1/namespaces", json!({"metadata": {"name": "mine"}})).await;
    assert_eq!(client.json(Method::DELETE, "/api/v1/namespaces/mine", Value::Null).await.0, 200);
}

#[tokio::test]
async fn clusters_have_paths_of_their_own() {
    let client = client().await;
    let other = "/clusters/other/api/v1/configmaps";
    client.json(Method::POST, CONFIG_MAPS, config_map("a")).await;
    assert_eq!(client.get(other).await.0, 404);
    let (code, created) = client.json(Method::POST, "/admin/clusters", json!({"id": "other"})).await;
    assert_eq!(code, 201, "{created}");
    let (code, list) = client.get(other).await;
    assert_eq!((code, &list["items"]), (200, &json!([])));
}

#[tokio::test]
async fn openapi_documents_are_found_by_their_hash() {
    let client = client().await;
    let (_, index) = client.get("/openapi/v3").await;
    let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let response = client.send(Method::GET, &url, &[], "").await;
    let tag = response.headers()[header::ETAG].to_str().unwrap().to_owned();
    let (_, document) = answer(response).await;
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"]["kind"], "ConfigMap",
        "kubectl looks here before it validates"
    );
    let known = client.send(Method::GET, &url, &[("if-none-match", &tag)], "").await;
    assert_eq!(known.status(), 304);
    let stale = client.send(Method::GET, "/openapi/v3/api/v1?hash=OLD", &[], "").await;
    assert_eq!(
        (stale.status().as_u16(), stale.headers()[header::LOCATION].to_str().unwrap()),
        (301, url.as_str())
    );
    assert_eq!(client.get("/openapi/v3/apis/nothing/v1").await.0, 404);
}

#[tokio::test]
async fn typed_clients_speak_protobuf() {
    let client = client().await;
    let id = coracle_api::schema::types().kind("", "v1", "ConfigMap").unwrap();
    let body = coracle_api::codec::protobuf::encode(&config_map("typed"), id);
    let headers = [
        ("content-type", "application/vnd.kubernetes.protobuf"),
        ("accept", "application/vnd.kubernetes.protobuf,application/json"),
    ];
    let response = client.send(Method::POST, CONFIG_MAPS, &headers, body).await;
    assert_eq!(response.status(), 201);
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/vnd.kubernetes.protobuf");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let object = coracle_api::codec::protobuf::decode(&bytes, Some(id)).unwrap().object;
    assert_eq!((&object["metadata"]["name"], &object["data"]["key"]), (&json!("typed"), &json!("value")));
}

#[tokio::test]
async fn table_of_flow_schemas_is_sorted_by_precedence() {
    let client = client().await;
    let path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    for (name, precedence) in [("a", 900), ("b", 100), ("c", 900), ("d", 500)] {
        let spec = json!({"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": "x"}});
        let schema = json!({"metadata": {"name": name}, "spec": spec});
        assert_eq!(client.json(Method::POST, path, schema).await.0, 201);
    }
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let (_, table) = answer(client.send(Method::GET, path, &accept, "").await).await;
    let names: Vec<_> = table["rows"].as_array().unwrap().iter().map(|row| &row["cells"][0]).collect();
    assert_eq!(names, ["b", "d", "a", "c"]);
    let (_, list) = client.get(path).await;
    let names: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn rejected_review_has_the_warnings_of_its_decoding() {
    let client = client().await;
    let body = serde_json::to_vec(&json!({"spec": {"unknown": 1}})).unwrap();
    let headers = [("content-type", "application/json")];
    for path in [
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/api/v1/namespaces/default/serviceaccounts/absent/token",
    ] {
        let path = format!("{path}?fieldValidation=Warn");
        let response = client.send(Method::POST, &path, &headers, body.clone()).await;
        assert!(!response.status().is_success(), "{path}");
        let warnings: Vec<_> = response.headers().get_all("warning").iter().collect();
        assert_eq!(warnings, [r#"299 - "unknown field \"spec.unknown\"""#], "{path}");
    }
}

#[tokio::test]
async fn deletion_of_jobs_warns_of_their_pods_for_one_and_for_many() {
    let client = client().await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs?dryRun=All";
    let response = client.send(Method::DELETE, jobs, &[], Vec::new()).await;
    assert_eq!(response.status(), 200);
    assert!(response.headers()["warning"].to_str().unwrap().contains("child pods are preserved by default"));
    let path = format!("{jobs}&propagationPolicy=Background");
    let response = client.send(Method::DELETE, &path, &[], Vec::new()).await;
    assert_eq!(response.headers().get("warning"), None);
}

#[tokio::test]
async fn only_served_requests_warn_of_a_deprecated_kind() {
    let client = client().await;
    let warned = async |method: Method, path: &str, accept: &str| {
        let headers = [("content-type", "application/json"), ("accept", accept)];
        let response = client.send(method, path, &headers, b"{}".to_vec()).await;
        response.headers().contains_key("warning")
    };
    let endpoints = "/api/v1/namespaces/default/endpoints";
    assert!(warned(Method::GET, endpoints, "application/json").await);
    assert!(warned(Method::GET, &format!("{endpoints}/nosuch"), "application/json").await);
    assert!(!warned(Method::GET, endpoints, "text/html").await);
    assert!(!warned(Method::PUT, endpoints, "application/json").await);
    assert!(!warned(Method::GET, &format!("{endpoints}/a/nosuch"), "application/json").await);
    assert!(!warned(Method::POST, "/api/v1/componentstatuses", "application/json").await);
    assert!(!warned(Method::PATCH, &format!("{endpoints}/a"), "application/json").await);
}
