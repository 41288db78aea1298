//! The generated CustomResourceDefinitions against an in-process cluster: each is served, and its schema and rules
//! are enforced.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use coracle::{Config, Coracle};
use coracle_benches::custom::{Operator, Operators, VERSION};
use futures_util::TryStreamExt;
use http::Request;
use kube::Client;
use kube::core::WatchEvent;
use serde_json::Value;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Time limit for a definition to be served; only a hanging server exceeds it.
const LIMIT: Duration = Duration::from_secs(60);

fn post(path: &str, object: &Value) -> Request<Vec<u8>> {
    let request = Request::post(path).header("content-type", "application/json");
    request.body(object.to_string().into_bytes()).unwrap()
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Established" && one["status"] == "True")
}

/// Creates a definition and waits until a watch reports it as Established.
async fn install(client: &Client, operator: &Operator<'_>) {
    let created: Value = client.request(post(DEFINITIONS, &operator.definition())).await.unwrap();
    let (name, revision) = (operator.name(), created["metadata"]["resourceVersion"].as_str().unwrap());
    let path =
        format!("{DEFINITIONS}?watch=true&fieldSelector=metadata.name%3D{name}&resourceVersion={revision}");
    let events = client.request_events::<Value>(Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
    let mut events = pin!(events);
    loop {
        match events.try_next().await.unwrap() {
            Some(WatchEvent::Modified(definition)) if is_established(&definition) => return,
            Some(_) => {}
            None => panic!("the watch of {name} ended"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generated_definitions_are_served_and_enforced() {
    let dir = tempfile::tempdir().unwrap();
    let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let cluster = Coracle::start(Config { listen, ..Config::new(dir.path()) }).await.unwrap();
    let (client, operators) = (cluster.client(), Operators::new("test"));

    for number in 0..Operators::FAMILIES {
        let operator = operators.get(number);
        let name = operator.name();
        tokio::time::timeout(LIMIT, install(&client, &operator)).await.expect(&name);

        let path = format!("/apis/{}/{VERSION}/namespaces/default/{}", operator.group(), operator.plural());
        let created: Value = client.request(post(&path, &operator.object("one"))).await.expect(&name);
        assert_eq!(created["spec"]["storage"]["volumeMode"], "Filesystem", "{name}: defaults");
        for (wrong, expected) in operator.wrong_objects("two") {
            let error = client.request::<Value>(post(&path, &wrong)).await.unwrap_err();
            let kube::Error::Api(status) = error else { panic!("{name}: {error}") };
            assert_eq!(status.code, 422, "{name}: {status:?}");
            assert!(status.message.contains(expected), "{name}: {}", status.message);
        }
    }
    cluster.shutdown().await;
}
