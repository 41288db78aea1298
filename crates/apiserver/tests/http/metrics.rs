//! The metrics at `/metrics`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::client::{CONFIG_MAPS, Client, bytes, content_type};
use coracle_apiserver::Identity;
use http::Method;
use http_body_util::BodyExt;

async fn metrics(client: &Client) -> String {
    let response = client.accept("/metrics", "*/*").await;
    assert_eq!(response.status(), 200);
    assert!(content_type(&response).starts_with("text/plain; version=0.0.4"));
    String::from_utf8(bytes(response).await.to_vec()).unwrap()
}

fn value(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let line = text.lines().find(|line| {
        line.starts_with(name) && labels.iter().all(|label| line.contains(label)) && !line.starts_with('#')
    })?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[tokio::test]
async fn requests_watches_and_objects_are_counted() {
    let client = Client::new().await;
    client.create("a", "x").await;
    client.create("b", "x").await;
    for path in [&format!("{CONFIG_MAPS}/a"), &format!("{CONFIG_MAPS}/a"), &format!("{CONFIG_MAPS}/missing")]
    {
        client.get(path).await;
    }
    client.accept("/apis/made.up/v1/things", "*/*").await;
    let watch = client.accept(&format!("{CONFIG_MAPS}?watch=true"), "application/json").await;
    let mut body = watch.into_body();
    body.frame().await.unwrap().unwrap();

    let text = metrics(&client).await;
    let maps = "resource=\"configmaps\"";
    let total = |labels: &[&str]| value(&text, "apiserver_request_total{", labels);
    assert_eq!(total(&["verb=\"POST\"", maps, "code=\"201\"", "scope=\"resource\""]), Some(2.0), "{text}");
    assert_eq!(total(&["verb=\"GET\"", maps, "code=\"200\""]), Some(2.0));
    assert_eq!(total(&["verb=\"GET\"", maps, "code=\"404\""]), Some(1.0));
    assert!(!text.contains("made.up"), "nobody makes up labels");
    let took = "apiserver_request_duration_seconds";
    let get = ["verb=\"GET\"", maps];
    assert_eq!(value(&text, &format!("{took}_count{{"), &get), Some(3.0));
    assert_eq!(value(&text, &format!("{took}_bucket{{"), &[&get[..], &["le=\"+Inf\""]].concat()), Some(3.0));
    assert_eq!(value(&text, "apiserver_longrunning_requests{", &["verb=\"WATCH\"", maps]), Some(1.0));
    assert_eq!(value(&text, "apiserver_watch_events_total{", &[maps]), Some(2.0));
    assert_eq!(value(&text, "apiserver_storage_objects{", &[maps]), Some(2.0));
    let inflight = "apiserver_current_inflight_requests{";
    assert_eq!(value(&text, inflight, &["readOnly"]), Some(1.0), "the one that asks");
    assert_eq!(value(&text, inflight, &["mutating"]), Some(0.0));
    assert_eq!(value(&text, "kubernetes_build_info{", &["major=\"1\"", "minor=\"36\""]), Some(1.0));

    drop(body);
    let text = metrics(&client).await;
    assert_eq!(value(&text, "apiserver_longrunning_requests{", &["verb=\"WATCH\"", maps]), Some(0.0));
    assert_eq!(value(&text, "apiserver_request_total{", &["verb=\"WATCH\"", maps]), Some(1.0));
}

#[tokio::test]
async fn steps_of_requests_are_counted() {
    let client = Client::new().await;
    let names = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    let moved = |text: &str, name: &str, labels: &[&str]| {
        assert!(value(text, name, labels).is_some_and(|value| value >= 1.0), "{name} {labels:?}: {text}");
    };
    let text = metrics(&client).await;
    moved(&text, "authentication_attempts{", &["result=\"success\""]);
    for name in [
        "apiserver_init_events_total",
        "apiserver_request_terminations_total",
        "apiserver_requested_deprecated_apis",
        "apiserver_terminated_watchers_total",
        "apiserver_watch_events_sizes",
        "apiserver_watch_list_duration_seconds",
        "kubernetes_healthcheck",
    ] {
        assert!(!names(&text).contains(name), "{name} is there before its first event");
    }

    for name in [
        "apiserver_client_certificate_expiration_seconds",
        "apiserver_tls_handshake_errors_total",
        "serviceaccount_valid_tokens_total",
        "version_info",
    ] {
        assert!(names(&text).contains(name), "{name} has no labels that need an event");
    }

    client.create("a", "x").await;
    client.get(CONFIG_MAPS).await;
    client.get("/api/v1/namespaces/default/endpoints").await;
    client.accept("/livez", "*/*").await;
    let begins_with_state =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let watch = client.accept(&format!("{CONFIG_MAPS}?{begins_with_state}"), "application/json").await;
    watch.into_body().frame().await.unwrap().unwrap();
    let mut nobody = client.clone();
    nobody.identity = None;
    assert_eq!(nobody.accept(CONFIG_MAPS, "*/*").await.status(), 401);
    let extra = [("authentication.kubernetes.io/credential-id".to_owned(), vec!["JTI=x".to_owned()])];
    let name = "system:serviceaccount:default:robot".to_owned();
    nobody.identity = Some(Arc::new(Identity { name, extra: BTreeMap::from(extra), ..Identity::default() }));
    assert_eq!(nobody.accept(CONFIG_MAPS, "*/*").await.status(), 403);
    client.send(Method::GET, CONFIG_MAPS, &[("impersonate-user", "bob")], "").await;

    let text = metrics(&client).await;
    let maps = "resource=\"configmaps\"";
    for (name, labels) in [
        ("authentication_attempts{", &["result=\"failure\""][..]),
        ("authentication_duration_seconds_count{", &["result=\"success\""]),
        ("authenticated_user_requests{", &["username=\"admin\""]),
        ("authenticated_user_requests{", &["username=\"other\""]),
        ("authorization_attempts_total{", &["result=\"allowed\""]),
        ("authorization_attempts_total{", &["result=\"denied\""]),
        ("authorization_duration_seconds_count{", &["result=\"denied\""]),
        ("apiserver_request_filter_duration_seconds_count{", &["filter=\"authentication\""]),
        ("apiserver_request_filter_duration_seconds_count{", &["filter=\"authorization\""]),
        ("apiserver_request_filter_duration_seconds_count{", &["filter=\"impersonation\""]),
        ("apiserver_request_filter_duration_seconds_count{", &["filter=\"priorityandfairness\""]),
        ("serviceaccount_valid_tokens_total ", &[]),
        ("apiserver_request_body_size_bytes_count{", &[maps, "verb=\"create\""]),
        ("apiserver_requested_deprecated_apis{", &["resource=\"endpoints\"", "version=\"v1\""]),
        ("kubernetes_healthcheck{", &["type=\"livez\""]),
        ("kubernetes_healthchecks_total{", &["status=\"success\"", "type=\"livez\""]),
        ("apiserver_init_events_total{", &[maps]),
        ("apiserver_watch_events_sizes_count{", &[maps, "version=\"v1\""]),
        ("apiserver_watch_list_duration_seconds_count{", &[maps, "scope=\"namespace\""]),
        ("apiserver_response_sizes_count{", &[maps, "verb=\"LIST\""]),
        ("apiserver_request_sli_duration_seconds_count{", &[maps, "verb=\"POST\""]),
        (
            "apiserver_admission_controller_admission_duration_seconds_count{",
            &["name=\"NamespaceLifecycle\"", "operation=\"CREATE\"", "rejected=\"false\""],
        ),
        (
            "apiserver_admission_step_admission_duration_seconds_count{",
            &["operation=\"CREATE\"", "type=\"validate\""],
        ),
    ] {
        moved(&text, name, labels);
    }
    let list_bytes = value(&text, "apiserver_response_sizes_sum{", &[maps, "verb=\"LIST\""]).unwrap();
    assert!(list_bytes > 100.0, "{list_bytes}");
    let families: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    assert_eq!(families.len(), names(&text).len(), "each name is told once");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn process_metrics_are_exposed() {
    let text = metrics(&Client::new().await).await;
    assert!(value(&text, "process_resident_memory_bytes", &[]).unwrap() > 1e6);
    assert!(value(&text, "process_start_time_seconds", &[]).unwrap() > 1.6e9);
    assert!(value(&text, "process_cpu_seconds_total", &[]).is_some());
}

#[tokio::test]
async fn metrics_without_credentials_are_rejected() {
    let mut client = Client::new().await;
    client.identity = None;
    assert_eq!(client.accept("/metrics", "*/*").await.status(), 401);
}
