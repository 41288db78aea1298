//! What `/metrics` tells.

use crate::client::{CONFIG_MAPS, Client, bytes, content_type};
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

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_process_is_told_of() {
    let text = metrics(&Client::new().await).await;
    assert!(value(&text, "process_resident_memory_bytes", &[]).unwrap() > 1e6);
    assert!(value(&text, "process_start_time_seconds", &[]).unwrap() > 1.6e9);
    assert!(value(&text, "process_cpu_seconds_total", &[]).is_some());
}

#[tokio::test]
async fn strangers_are_told_nothing() {
    let mut client = Client::new().await;
    client.identity = None;
    assert_eq!(client.accept("/metrics", "*/*").await.status(), 401);
}
