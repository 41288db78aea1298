//! OpenAPI without sockets: the behaviour that kubectl, client-go and caches rely on.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::Arc;

use bytes::Bytes;
use coracle_apiserver::{ApiServer, HealthChecks, Identity, PeerIdentity};
use coracle_base::Clock;
use coracle_registry::Registry;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const ASKED_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const TOLD_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

fn server() -> ApiServer {
    let health = HealthChecks::new(CancellationToken::new());
    ApiServer::new(health, Registry::in_memory(), Clock::system())
}

async fn get(server: &ApiServer, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, Bytes) {
    let mut request = Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Full::new(Bytes::new())).unwrap();
    let admin =
        Identity { name: "admin".into(), groups: vec!["system:masters".into()], ..Identity::default() };
    request.extensions_mut().insert(PeerIdentity(Some(Arc::new(admin))));
    let (parts, body) = server.clone().oneshot(request).await.unwrap().into_parts();
    (parts.status.as_u16(), parts.headers, body.collect().await.unwrap().to_bytes())
}

async fn document(server: &ApiServer, path: &str) -> Value {
    let (code, headers, body) = get(server, path, &[]).await;
    assert_eq!((code, headers[header::CONTENT_TYPE].to_str().unwrap()), (200, "application/json"), "{path}");
    serde_json::from_slice(&body).unwrap()
}

/// The index of the third version, which kube-apiserver serves as text.
async fn index(server: &ApiServer) -> Value {
    let (code, headers, body) = get(server, "/openapi/v3", &[]).await;
    assert_eq!((code, headers[header::CONTENT_TYPE].to_str().unwrap()), (200, "text/plain; charset=utf-8"));
    serde_json::from_slice(&body).unwrap()
}

/// The tag of a document, without the document.
async fn tag(server: &ApiServer, path: &str) -> String {
    let (code, headers, _) = get(server, path, &[("if-none-match", "*")]).await;
    assert_eq!(code, 304, "{path}");
    headers[header::ETAG].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_document_of_the_index_is_there() {
    let server = server();
    let index = index(&server).await;
    let paths = index["paths"].as_object().unwrap();
    for expected in ["api", "api/v1", "apis", "apis/apps", "apis/apps/v1", "version"] {
        assert!(paths.contains_key(expected), "{expected}");
    }
    for (path, entry) in paths {
        let url = entry["serverRelativeURL"].as_str().unwrap();
        let (code, headers, body) = get(&server, url, &[]).await;
        assert_eq!(code, 200, "{path}");
        assert!(headers[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"), "{path}");
        assert_eq!(headers[header::ETAG], format!("\"{}\"", url.split_once("hash=").unwrap().1));
        let document: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(document["openapi"], "3.0.0", "{path}");
        assert!(!document["paths"].as_object().unwrap().is_empty(), "{path}");
    }
    for path in ["/openapi/v3/apis/nothing/v1", "/openapi/v3/nothing", "/openapi/v1", "/openapi"] {
        assert_eq!(get(&server, path, &[]).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn kubectl_explain_finds_words() {
    let server = server();
    let core = document(&server, "/openapi/v3/api/v1").await;
    let schemas = &core["components"]["schemas"];
    let text = |name: &str| schemas[name]["description"].as_str().unwrap().to_owned();
    assert!(text("io.k8s.api.core.v1.Container").starts_with("A single application container"));
    assert!(text("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").starts_with("ObjectMeta is metadata"));
    let ports = &schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"];
    assert!(ports["description"].as_str().unwrap().starts_with("List of ports to expose"));
    let extensions = document(&server, "/openapi/v3/apis/apiextensions.k8s.io/v1").await;
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
    assert!(extensions["components"]["schemas"][name]["description"].is_string());
    let registration = document(&server, "/openapi/v3/apis/apiregistration.k8s.io/v1").await;
    let name = "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService";
    assert!(registration["components"]["schemas"][name]["description"].is_string());
}

#[tokio::test]
async fn hashes_outlive_the_server() {
    assert_eq!(get(&server(), "/openapi/v3", &[]).await.2, get(&server(), "/openapi/v3", &[]).await.2);
    let first = get(&server(), "/openapi/v3/apis/apps/v1", &[]).await;
    let again = get(&server(), "/openapi/v3/apis/apps/v1", &[]).await;
    assert_eq!((&first.1[header::ETAG], &first.2), (&again.1[header::ETAG], &again.2));
    assert_eq!(tag(&server(), "/openapi/v2").await, tag(&server(), "/openapi/v2").await);
}

#[tokio::test]
async fn known_document_is_answered_with_304() {
    let server = server();
    for path in ["/openapi/v2", "/openapi/v3/api/v1", "/openapi/v3/apis/apps"] {
        let tag = tag(&server, path).await;
        for known in [tag.to_owned(), format!("\"old\", {tag}"), format!("W/{tag}")] {
            let (code, headers, body) = get(&server, path, &[("if-none-match", &known)]).await;
            assert_eq!((code, body.len()), (304, 0), "{path} {known}");
            assert_eq!(headers[header::ETAG], tag);
        }
    }
    for path in ["/openapi/v2", "/openapi/v3/apis/apps"] {
        let (code, headers, body) = get(&server, path, &[("if-none-match", "\"old\"")]).await;
        assert_eq!(code, 200, "{path}");
        assert!(!body.is_empty());
        assert_eq!(headers[header::ETAG], tag(&server, path).await);
    }
}

#[tokio::test]
async fn version_2_documents_all_kinds() {
    let server = server();
    let swagger = document(&server, "/openapi/v2").await;
    assert_eq!((&swagger["swagger"], &swagger["info"]["version"]), (&json!("2.0"), &json!("1.36")));
    for definition in [
        "io.k8s.api.core.v1.Pod",
        "io.k8s.api.apps.v1.DeploymentList",
        "io.k8s.api.policy.v1.Eviction",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
        "io.k8s.apimachinery.pkg.version.Info",
    ] {
        assert!(swagger["definitions"][definition]["description"].is_string(), "{definition}");
    }
    let pod = &swagger["definitions"]["io.k8s.api.core.v1.Pod"];
    let kind = json!([{"group": "", "version": "v1", "kind": "Pod"}]);
    assert_eq!(pod["x-kubernetes-group-version-kind"], kind);
    let operation = |path: &str, method: &str| swagger["paths"][path][method]["operationId"].clone();
    for (path, method, id) in [
        ("/api/v1/namespaces/{namespace}/pods/{name}/exec", "post", "connectCoreV1PostNamespacedPodExec"),
        ("/api/v1/namespaces/{name}/finalize", "put", "replaceCoreV1NamespaceFinalize"),
        ("/apis/batch/v1/watch/cronjobs", "get", "watchBatchV1CronJobListForAllNamespaces"),
        ("/apis/storage.k8s.io/", "get", "getStorageAPIGroup"),
        ("/version/", "get", "getCodeVersion"),
    ] {
        assert_eq!(operation(path, method), id, "{path}");
    }
    let ids: Vec<&str> = swagger["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values())
        .filter_map(|operation| operation["operationId"].as_str())
        .collect();
    let unique: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "generated clients make a method of each");
}

#[tokio::test]
async fn version_2_comes_in_the_form_that_is_asked_for() {
    let server = server();
    let (code, headers, body) = get(&server, "/openapi/v2", &[("accept", ASKED_PROTOBUF)]).await;
    assert_eq!((code, headers[header::CONTENT_TYPE].to_str().unwrap()), (200, TOLD_PROTOBUF));
    assert_eq!(headers.get_all(header::VARY).iter().collect::<Vec<_>>(), ["Accept-Encoding", "Accept"]);
    assert!(headers.contains_key(header::LAST_MODIFIED));
    assert_eq!(headers[header::ETAG], tag(&server, "/openapi/v2").await, "as that of JSON");
    assert!(body.starts_with(b"\x0a\x032.0\x12\x12\x0a\x0aKubernetes\x12\x041.36"), "{:?}", &body[..32]);
    for accept in ["text/html", "application/vnd.kubernetes.protobuf"] {
        let (code, _, body) = get(&server, "/openapi/v2", &[("accept", accept)]).await;
        assert_eq!((code, body.len()), (406, 0), "{accept}");
    }
    let (code, ..) = get(&server, "/openapi/v3/api/v1", &[("accept", "text/html")]).await;
    assert_eq!(code, 406);
}

#[tokio::test]
async fn a_crowd_gets_its_documents_one_after_the_other() {
    let server = server();
    let crowd = (0..4).map(|_| get(&server, "/openapi/v3/apis/apps/v1", &[]));
    let answers = futures_util::future::join_all(crowd).await;
    assert!(answers.iter().all(|(code, _, body)| *code == 200 && *body == answers[0].2));
}

#[tokio::test]
async fn version_3_comes_in_protobuf() {
    let server = server();
    let told = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
    let index = index(&server).await;
    for path in ["api", "api/v1", "apis/apps", "apis/apps/v1", "version"] {
        for accept in [told, "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"] {
            let url = index["paths"][path]["serverRelativeURL"].as_str().unwrap();
            let (code, headers, body) = get(&server, url, &[("accept", accept)]).await;
            assert_eq!((code, headers[header::CONTENT_TYPE].to_str().unwrap()), (200, told), "{path}");
            assert_eq!(headers[header::ETAG], format!("\"{}\"", url.split_once("hash=").unwrap().1));
            assert!(body.starts_with(b"\x0a\x053.0.0\x12\x12\x0a\x0aKubernetes\x32\x041.36"), "{path}");
        }
    }
}
