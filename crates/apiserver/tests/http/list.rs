//! Lists at any revision, in pages, with selections, and while they are written.

use std::collections::BTreeMap;

use crate::client::{CONFIG_MAPS, Client, config_map, revision};
use coracle_base::Rng;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

/// Name to label, as of one revision.
type State = BTreeMap<String, String>;

/// Makes random changes and records the state after each.
async fn random_history(client: &Client, rng: &mut Rng, changes: usize) -> BTreeMap<u64, State> {
    let mut state = State::new();
    let mut history = BTreeMap::new();
    for _ in 0..changes {
        let name = format!("c{}", rng.below(6));
        let label = rng.below(3).to_string();
        let path = format!("{CONFIG_MAPS}/{name}");
        let at = match (state.contains_key(&name), rng.below(3)) {
            (false, _) => client.create(&name, &label).await,
            (true, 0) => {
                client.json(Method::DELETE, &path, Value::Null).await;
                state.remove(&name);
                let (_, list) = client.get(CONFIG_MAPS).await;
                history.insert(revision(&list), state.clone());
                continue;
            }
            (true, _) => {
                let mut object = config_map(&name, &label);
                object["metadata"]["namespace"] = json!("default");
                object["data"]["random"] = json!(rng.u64().to_string());
                let (code, object) = client.json(Method::PUT, &path, object).await;
                assert_eq!(code, 200, "{object}");
                revision(&object)
            }
        };
        state.insert(name, label);
        history.insert(at, state.clone());
    }
    history
}

/// All pages of a list.
async fn pages(client: &Client, query: &str, limit: usize) -> State {
    let mut found = State::new();
    let mut path = format!("{CONFIG_MAPS}?{query}&limit={limit}");
    loop {
        let (code, list) = client.get(&path).await;
        assert_eq!(code, 200, "{path}: {list}");
        let items = list["items"].as_array().unwrap();
        assert!(items.len() <= limit);
        for item in items {
            let metadata = &item["metadata"];
            let label = metadata["labels"]["label"].as_str().unwrap();
            found.insert(metadata["name"].as_str().unwrap().to_owned(), label.to_owned());
        }
        let Some(token) = list["metadata"]["continue"].as_str() else { return found };
        let selector = query.split('&').find(|pair| pair.starts_with("labelSelector")).unwrap_or_default();
        path = format!("{CONFIG_MAPS}?{selector}&limit={limit}&continue={token}");
    }
}

#[tokio::test]
async fn list_at_any_revision_has_the_state_of_that_revision() {
    let seed = Rng::from_entropy().u64();
    let mut rng = Rng::seeded(seed);
    let client = Client::new().await;
    let history = random_history(&client, &mut rng, 60).await;
    for (at, state) in &history {
        let exact = format!("resourceVersion={at}&resourceVersionMatch=Exact");
        assert_eq!(&pages(&client, &exact, 100).await, state, "seed {seed}, revision {at}");
        assert_eq!(&pages(&client, &exact, 2).await, state, "seed {seed}, revision {at}, in pages");
        let label = rng.below(3).to_string();
        for (operator, wanted) in [("%3D", true), ("!%3D", false)] {
            let query = format!("{exact}&labelSelector=label{operator}{label}");
            let mut expected = state.clone();
            expected.retain(|_, value| (*value == label) == wanted);
            assert_eq!(pages(&client, &query, 2).await, expected, "seed {seed}, revision {at}: {query}");
        }
    }
}

#[tokio::test]
async fn pages_have_remaining_item_count() {
    let client = Client::new().await;
    for index in 0..5 {
        client.create(&format!("a{index}"), "x").await;
    }
    let (_, list) = client.get(&format!("{CONFIG_MAPS}?limit=2")).await;
    assert_eq!(list["metadata"]["remainingItemCount"], 3);
    let (_, list) = client.get(&format!("{CONFIG_MAPS}?limit=2&labelSelector=label")).await;
    assert!(list["metadata"].get("remainingItemCount").is_none(), "nobody counts what is selected");
    let (_, list) = client.get(&format!("{CONFIG_MAPS}?limit=2&resourceVersion=0")).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 5, "any state is told whole");
    assert!(list["metadata"].get("continue").is_none());
}

#[tokio::test]
async fn a_large_list_is_written_piece_by_piece() {
    let client = Client::new().await;
    for index in 0..100 {
        let object = json!({"metadata": {"name": format!("a{index}")}, "data": {"key": "x".repeat(5_000)}});
        client.json(Method::POST, CONFIG_MAPS, object).await;
    }
    let mut body = client.accept(CONFIG_MAPS, "application/json").await.into_body();
    let (mut text, mut pieces) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        assert!(data.len() < 80 * 1024, "{}", data.len());
        text.extend_from_slice(&data);
        pieces += 1;
    }
    assert!(pieces > 5);
    let list: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn list_at_a_future_revision_waits() {
    let client = Client::new().await;
    let at = client.create("a", "x").await;
    let next = at + 1;
    for path in [
        format!("{CONFIG_MAPS}?resourceVersion={next}&resourceVersionMatch=NotOlderThan"),
        format!("{CONFIG_MAPS}/a?resourceVersion={next}"),
    ] {
        let (code, refused) = client.get(&path).await;
        assert_eq!((code, &refused["reason"]), (504, &json!("Timeout")), "{refused}");
        let message = format!("Timeout: Too large resource version: {next}, current: {at}");
        assert_eq!(refused["message"], message);
        assert_eq!(refused["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
        assert_eq!(refused["details"]["retryAfterSeconds"], 1);
    }
    let path = format!("{CONFIG_MAPS}?resourceVersion={next}");
    let (answer, made) = tokio::join!(client.get(&path), client.create("b", "x"));
    assert_eq!(made, next);
    assert_eq!((answer.0, answer.1["items"].as_array().unwrap().len()), (200, 2));
}
