//! Watches: their initial state, equal events for all watchers, and the formats of events.

use std::collections::BTreeMap;

use crate::client::{CONFIG_MAPS, Client, PROTOBUF, config_map, content_type, revision};
use bytes::{Bytes, BytesMut};
use coracle_api::codec::protobuf;
use coracle_api::schema::types;
use coracle_apiserver::ResponseBody;
use coracle_base::Rng;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The events of a watch as they come.
struct Events {
    body: ResponseBody,
    buffer: BytesMut,
    framed: bool,
}

impl Events {
    async fn of(client: &Client, query: &str, accept: &str) -> Self {
        let path = format!("{CONFIG_MAPS}?watch=true&{query}");
        let response = client.accept(&path, accept).await;
        assert_eq!(response.status(), 200);
        let framed = content_type(&response) == format!("{PROTOBUF};stream=watch");
        assert_eq!(framed, accept.starts_with(PROTOBUF));
        Self { body: response.into_body(), buffer: BytesMut::new(), framed }
    }

    fn take(&mut self) -> Option<Bytes> {
        if self.framed {
            let length = u32::from_be_bytes(self.buffer.get(..4)?.try_into().unwrap()) as usize;
            self.buffer.get(..4 + length)?;
            return Some(self.buffer.split_to(4 + length).freeze().slice(4..));
        }
        let end = self.buffer.iter().position(|byte| *byte == b'\n')?;
        Some(self.buffer.split_to(end + 1).freeze())
    }

    /// The next event, or none if the watch has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.take() {
                return Some(if self.framed {
                    from_protobuf(&event)
                } else {
                    serde_json::from_slice(&event).unwrap()
                });
            }
            let frame = self.body.frame().await?.unwrap();
            self.buffer.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    async fn take_n(&mut self, count: usize) -> Vec<Value> {
        let mut events = Vec::new();
        while events.len() < count {
            events.push(self.next().await.unwrap());
        }
        events
    }
}

fn from_protobuf(event: &[u8]) -> Value {
    let id = types().named("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent");
    let at = event.windows(4).position(|window| window == b"k8s\0").unwrap();
    let object = protobuf::decode(&event[at..], id).unwrap().object;
    // The type is the first field: a tag, a length, and so many characters.
    let length = event[1] as usize;
    json!({"type": std::str::from_utf8(&event[2..2 + length]).unwrap(), "object": object})
}

/// Random changes of six objects, and how many events they made.
async fn random_changes(client: &Client, rng: &mut Rng, changes: usize) -> usize {
    let mut there = BTreeMap::new();
    for _ in 0..changes {
        let name = format!("c{}", rng.below(6));
        let path = format!("{CONFIG_MAPS}/{name}");
        let label = rng.below(2).to_string();
        if there.remove(&name).is_some() && rng.below(2) == 0 {
            client.json(Method::DELETE, &path, Value::Null).await;
            continue;
        }
        let mut object = config_map(&name, &label);
        object["metadata"]["namespace"] = json!("default");
        object["data"]["random"] = json!(rng.u64().to_string());
        let (code, _) = client.json(Method::PUT, &path, object.clone()).await;
        if code == 404 {
            client.json(Method::POST, CONFIG_MAPS, object).await;
        }
        there.insert(name, label);
    }
    changes
}

#[tokio::test]
async fn all_watchers_of_a_revision_receive_the_same_events() {
    let seed = Rng::from_entropy().u64();
    let mut rng = Rng::seeded(seed);
    let client = Client::new().await;
    let from = client.create("first", "0").await;
    let query = format!("resourceVersion={from}");
    let mut early = Events::of(&client, &query, "application/json").await;
    let mut early_protobuf = Events::of(&client, &query, PROTOBUF).await;
    let count = random_changes(&client, &mut rng, 80).await;
    let mut late = Events::of(&client, &query, "application/json").await;
    let expected = early.take_n(count).await;
    assert_eq!(late.take_n(count).await, expected, "seed {seed}");
    assert_eq!(early_protobuf.take_n(count).await, expected, "seed {seed}");
    let revisions: Vec<u64> = expected.iter().map(|event| revision(&event["object"])).collect();
    assert!(revisions.is_sorted(), "seed {seed}: {revisions:?}");

    // A watch with a selector has exactly the objects that a list with the selector returns.
    let mut selected =
        Events::of(&client, &format!("{query}&labelSelector=label%3D1"), "application/json").await;
    let mut state: BTreeMap<String, u64> = BTreeMap::new();
    let (_, list) = client.get(&format!("{CONFIG_MAPS}?labelSelector=label%3D1")).await;
    let items = list["items"].as_array().unwrap();
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let wanted: BTreeMap<String, u64> = items.iter().map(|item| (name(item), revision(item))).collect();
    while state != wanted {
        let event = selected.next().await.unwrap();
        let object = &event["object"];
        match event["type"].as_str().unwrap() {
            "DELETED" => assert!(state.remove(&name(object)).is_some(), "seed {seed}: {event}"),
            "ADDED" => {
                assert!(state.insert(name(object), revision(object)).is_none(), "seed {seed}: {event}")
            }
            _ => assert!(state.insert(name(object), revision(object)).is_some(), "seed {seed}: {event}"),
        }
    }
}

#[tokio::test]
async fn watch_without_resource_version_begins_with_the_state() {
    let client = Client::new().await;
    let first = client.create("a", "x").await;
    client.create("b", "x").await;
    for query in ["", "resourceVersion=0", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"] {
        let mut events = Events::of(&client, query, "application/json").await;
        let told = events.take_n(2).await;
        assert!(told.iter().all(|event| event["type"] == "ADDED"), "{query}: {told:?}");
    }
    let mut events = Events::of(&client, &format!("resourceVersion={first}"), "application/json").await;
    assert_eq!(events.next().await.unwrap()["object"]["metadata"]["name"], "b");
    let mut one = Events::of(&client, "fieldSelector=metadata.name%3Db", "application/json").await;
    assert_eq!(one.next().await.unwrap()["object"]["metadata"]["name"], "b");
    client.create("b2", "x").await;
    client.json(Method::DELETE, &format!("{CONFIG_MAPS}/b"), Value::Null).await;
    assert_eq!(one.next().await.unwrap()["type"], "DELETED", "others are not told of");

    let response = client.accept("/api/v1/watch/namespaces/default/configmaps/a", "application/json").await;
    let frame = response.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(frame.starts_with(b"{\"type\":\"ADDED\",\"object\":{\"kind\":\"ConfigMap\""), "{frame:?}");
    let (code, object) = client.get(&format!("{CONFIG_MAPS}/a?watch=true")).await;
    assert_eq!((code, &object["kind"]), (200, &json!("ConfigMap")), "one object is not watched so");
}

#[tokio::test]
async fn the_end_of_the_state_is_marked_in_every_form() {
    let client = Client::new().await;
    client.create("a", "x").await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    for accept in [
        "application/json",
        PROTOBUF,
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        &*format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
        table,
    ] {
        let mut events = Events::of(&client, query, accept).await;
        let told = events.take_n(2).await;
        assert_eq!((&told[0]["type"], &told[1]["type"]), (&json!("ADDED"), &json!("BOOKMARK")), "{accept}");
        let of_row = |event: &Value| event["object"]["rows"][0]["object"].clone();
        let marked = if accept == table { of_row(&told[1]) } else { told[1]["object"].clone() };
        assert_eq!(marked["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{accept}");
        assert!(revision(&marked) >= 1);
        if accept == table {
            assert!(told[0]["object"]["columnDefinitions"].is_array());
            assert!(told[1]["object"]["columnDefinitions"].is_null(), "columns are told once");
        }
    }
    let refused = client.accept(&format!("{CONFIG_MAPS}?watch=true"), "application/yaml").await;
    assert_eq!(refused.status(), 406);
}

#[tokio::test(start_paused = true)]
async fn watch_sends_a_bookmark_and_ends_at_its_timeout() {
    let client = Client::new().await;
    let at = client.create("a", "x").await;
    let query = format!("resourceVersion={at}&allowWatchBookmarks=true&timeoutSeconds=100");
    let mut events = Events::of(&client, &query, "application/json").await;
    let bookmark = events.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    let expected =
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": at.to_string()}});
    assert_eq!(bookmark["object"], expected);
    assert_eq!(events.next().await, None, "one in a minute, and then the end");

    let too_large =
        format!("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion={}", at + 9);
    let mut events = Events::of(&client, &too_large, "application/json").await;
    let error = events.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(504)));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn large_object_reaches_watchers_completely() {
    let client = Client::new().await;
    let at = client.create("a", "x").await;
    let mut events = Events::of(&client, &format!("resourceVersion={at}"), "application/json").await;
    for index in 0..4 {
        let object =
            json!({"metadata": {"name": format!("large{index}")}, "data": {"key": "x".repeat(300_000)}});
        client.json(Method::POST, CONFIG_MAPS, object).await;
        client.create(&format!("small{index}"), "x").await;
    }
    for (index, event) in events.take_n(8).await.iter().enumerate() {
        let kind = if index % 2 == 0 { "large" } else { "small" };
        assert_eq!(event["object"]["metadata"]["name"], format!("{kind}{}", index / 2));
    }
}

#[tokio::test]
async fn watch_at_shutdown_ends_after_whole_events_and_new_watches_are_rejected() {
    let shutdown = CancellationToken::new();
    let client = Client::with_shutdown(shutdown.clone()).await;
    let mut idle = Events::of(&client, "resourceVersion=0", "application/json").await;
    // Together more than one write holds, so that the second watch is still sending its state.
    let data = json!({"key": "x".repeat(8 * 1024)});
    for number in 0..20 {
        let object = json!({"metadata": {"name": format!("c{number}")}, "data": data});
        assert_eq!(client.json(Method::POST, CONFIG_MAPS, object).await.0, 201);
    }
    let from_state = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut sending = Events::of(&client, from_state, "application/json").await;
    assert_eq!(sending.next().await.unwrap()["type"], "ADDED");
    assert_eq!(idle.take_n(20).await.len(), 20);
    shutdown.cancel();
    assert_eq!(idle.next().await, None);
    let mut sent = 1;
    while sending.next().await.is_some() {
        sent += 1;
    }
    assert!(sent < 20, "it went on sending");
    assert!(sending.buffer.is_empty() && idle.buffer.is_empty(), "no event is cut in two");

    let response = client.accept(&format!("{CONFIG_MAPS}?watch=true"), "application/json").await;
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "5");
    assert_eq!(client.get(CONFIG_MAPS).await.0, 200, "other requests are still answered");
}
