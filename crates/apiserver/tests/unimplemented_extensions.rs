//! Webhooks and aggregated API servers, which are stored and not called: warnings and errors for clients.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use coracle_apiserver::PeerIdentity;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use support::{Client, MERGE};
use tower::ServiceExt;

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Sends a request and returns the answer with its headers.
async fn send(
    client: &Client,
    method: Method,
    path: &str,
    headers: &[(header::HeaderName, &str)],
    body: &Value,
) -> Response<String> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut request = request.body(Full::from(body)).unwrap();
    request.extensions_mut().insert(PeerIdentity(Some(client.identity.clone())));
    let (head, body) = client.server.clone().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Response::from_parts(head, String::from_utf8(body.to_vec()).unwrap())
}

async fn post(client: &Client, path: &str, body: Value) -> Response<String> {
    send(client, Method::POST, path, &[(header::CONTENT_TYPE, "application/json")], &body).await
}

async fn get(client: &Client, path: &str, accept: &str) -> Response<String> {
    send(client, Method::GET, path, &[(header::ACCEPT, accept)], &Value::Null).await
}

fn warnings(response: &Response<String>) -> Vec<&str> {
    response.headers().get_all(header::WARNING).iter().map(|value| value.to_str().unwrap()).collect()
}

fn api_service(group: &str, service: Value) -> Value {
    let spec = json!({
        "group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
        "service": service, "insecureSkipTLSVerify": !service.is_null(),
    });
    json!({"metadata": {"name": format!("v1.{group}")}, "spec": spec})
}

fn webhooks(name: &str, failure_policy: Value) -> Value {
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    let webhook = json!({
        "name": "check.example.com", "rules": [rule], "clientConfig": {"url": "https://example.com/"},
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": failure_policy,
    });
    json!({"metadata": {"name": name}, "webhooks": [webhook]})
}

#[tokio::test]
async fn webhook_that_must_not_fail_is_stored_with_a_warning() {
    let client = Client::new().await;
    let ignored = "299 - \"admission webhooks are not implemented: these are never called in spite of failurePolicy Fail: check.example.com\"";
    // The default is Fail.
    for (name, policy) in [("default", Value::Null), ("fail", json!("Fail"))] {
        let response = post(&client, WEBHOOKS, webhooks(name, policy)).await;
        assert_eq!((response.status().as_u16(), warnings(&response)), (201, vec![ignored]));
    }
    let response = post(&client, WEBHOOKS, webhooks("ignore", json!("Ignore"))).await;
    assert_eq!((response.status().as_u16(), warnings(&response)), (201, vec![]));
    let patch = webhooks("ignore", json!("Fail"));
    let path = format!("{WEBHOOKS}/ignore");
    let response = send(&client, Method::PATCH, &path, &[(header::CONTENT_TYPE, MERGE)], &patch).await;
    assert_eq!((response.status().as_u16(), warnings(&response)), (200, vec![ignored]));
}

#[tokio::test]
async fn warning_is_sent_only_when_the_unimplemented_part_is_stored_or_changed() {
    let client = Client::new().await;
    let service = json!({"namespace": "default", "name": "remote"});
    let merge = [(header::CONTENT_TYPE, MERGE)];
    let cases = [
        (
            WEBHOOKS,
            webhooks("a", json!("Fail")),
            json!({"webhooks": [webhooks("a", json!("Ignore"))["webhooks"][0]]}),
        ),
        (API_SERVICES, api_service("a.example.com", service), json!({"spec": {"service": {"port": 8443}}})),
    ];
    for (path, object, change) in cases {
        let dry = post(&client, &format!("{path}?dryRun=All"), object.clone()).await;
        assert_eq!((dry.status().as_u16(), warnings(&dry)), (201, vec![]), "{path}");
        let created = post(&client, path, object.clone()).await;
        assert_eq!((created.status().as_u16(), warnings(&created).len()), (201, 1), "{path}");
        let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        let labelled = send(&client, Method::PATCH, &path, &merge, &label).await;
        assert_eq!((labelled.status().as_u16(), warnings(&labelled)), (200, vec![]), "{path}");
        let expected = usize::from(change.get("spec").is_some());
        let changed = send(&client, Method::PATCH, &path, &merge, &change).await;
        assert_eq!((changed.status().as_u16(), warnings(&changed).len()), (200, expected), "{path}");
    }
}

#[tokio::test]
async fn definition_with_a_conversion_webhook_is_stored_with_a_warning() {
    let client = Client::new().await;
    let definition = |plural: &str, conversion: Value| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
        let names = json!({"plural": plural, "kind": plural.to_uppercase()});
        json!({
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version], "conversion": conversion},
        })
    };
    let webhook =
        json!({"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com/"}});
    let webhook = json!({"strategy": "Webhook", "webhook": webhook});
    let response = post(&client, DEFINITIONS, definition("boats", webhook)).await;
    assert_eq!(response.status(), 201, "{}", response.body());
    let warned = warnings(&response);
    assert!(warned.len() == 1 && warned[0].contains("conversion webhooks are not implemented"), "{warned:?}");
    let response = post(&client, DEFINITIONS, definition("oars", json!({"strategy": "None"}))).await;
    assert_eq!((response.status().as_u16(), warnings(&response)), (201, vec![]));
}

#[tokio::test]
async fn group_version_of_an_api_service_with_a_service_answers_503() {
    let client = Client::new().await;
    let paths = ["/apis/remote.example.com/v1", "/apis/remote.example.com/v1/namespaces/default/things/a"];
    for path in paths {
        assert_eq!(get(&client, path, "application/json").await.status(), 404, "{path}");
    }
    let service = json!({"namespace": "default", "name": "remote"});
    let response = post(&client, API_SERVICES, api_service("remote.example.com", service)).await;
    assert_eq!(response.status(), 201, "{}", response.body());
    assert!(warnings(&response)[0].contains("aggregated API servers are not implemented"));
    for path in paths {
        let response = get(&client, path, "application/json").await;
        assert_eq!(
            (response.status().as_u16(), &**response.body()),
            (503, "service unavailable\n"),
            "{path}"
        );
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    }
    assert_eq!(get(&client, "/apis/remote.example.com/v2", "application/json").await.status(), 404);
    assert_eq!(get(&client, "/apis/apps/v1", "application/json").await.status(), 200);
}

#[tokio::test]
async fn group_of_an_api_service_with_a_service_is_discovered_as_stale() {
    let client = Client::new().await;
    let service = json!({"namespace": "default", "name": "remote"});
    post(&client, API_SERVICES, api_service("remote.example.com", service)).await;
    let group = |list: &Response<String>, pointer: &str| {
        let list: Value = serde_json::from_str(list.body()).unwrap();
        let groups = list.pointer(pointer).unwrap().as_array().unwrap().clone();
        let is_it = |group: &Value| {
            group["name"] == "remote.example.com" || group["metadata"]["name"] == "remote.example.com"
        };
        groups.into_iter().find(is_it).unwrap()
    };
    let aggregated = group(&get(&client, "/apis", AGGREGATED).await, "/items");
    assert_eq!(aggregated["versions"], json!([{"version": "v1", "freshness": "Stale"}]));
    let listed = group(&get(&client, "/apis", "application/json").await, "/groups");
    assert_eq!(listed["preferredVersion"]["groupVersion"], "remote.example.com/v1");
    let alone = get(&client, "/apis/remote.example.com", "application/json").await;
    assert_eq!(alone.status(), 200);
    let document = get(&client, "/openapi/v3/apis/remote.example.com/v1", "application/json").await;
    assert_eq!(document.status(), 404);
}
