//! Tests of merging applied lists: order of items, and keys.

use serde_json::{Value, json};

use crate::fixture::{Kind, ObjectHistory, deployment};

fn merged(path: &str, live: Value, config: Value) -> Value {
    let nest = |list: Value| match path {
        "tags" => deployment(json!({"spec": {"tags": list}})),
        _ => deployment(json!({"spec": {"template": {"containers": list}}})),
    };
    let mut merged = Kind::new().object_type().merge(nest(live), &nest(config));
    match path {
        "tags" => merged["spec"]["tags"].take(),
        _ => merged["spec"]["template"]["containers"].take(),
    }
}

#[test]
fn merged_list_is_ordered_like_configuration() {
    for (live, config, expected) in [
        ("ab", "", "ab"),
        ("", "ab", "ab"),
        ("ab", "ba", "ba"),
        ("abc", "c", "abc"),
        ("abc", "ca", "bca"),
        ("ab", "cd", "abcd"),
        ("abcd", "xb", "axbcd"),
        ("abcd", "dxa", "bcdxa"),
        ("aXbYc", "cba", "XYcba"),
        ("abc", "zab", "zabc"),
        ("acb", "abc", "abc"),
    ] {
        let list = |letters: &str| letters.chars().map(|letter| json!(letter.to_string())).collect::<Value>();
        assert_eq!(merged("tags", list(live), list(config)), list(expected), "{config} into {live}");
        let items = |letters: &str| {
            letters.chars().map(|letter| json!({"name": letter.to_string()})).collect::<Value>()
        };
        assert_eq!(merged("containers", items(live), items(config)), items(expected), "{config} into {live}");
    }
}

#[test]
fn items_are_merged_by_their_keys() {
    let live = json!([{"name": "a", "image": "1", "args": ["x", "y"]}, {"name": "b", "image": "1"}]);
    let config = json!([{"name": "a", "image": "2", "args": ["z"]}]);
    let expected = json!([{"name": "a", "image": "2", "args": ["z"]}, {"name": "b", "image": "1"}]);
    assert_eq!(merged("containers", live, config), expected);
}

#[test]
fn absent_key_has_default_value() {
    let mut history = ObjectHistory::new();
    let ports = |ports: Value| json!({"spec": {"template": {"containers": [{"name": "c", "ports": ports}]}}});
    history
        .apply(
            "a",
            ports(json!([{"containerPort": 80, "name": "web"}, {"containerPort": 53, "protocol": "UDP"}])),
        )
        .unwrap();
    history
        .apply(
            "b",
            ports(
                json!([{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 53, "protocol": "TCP"}]),
            ),
        )
        .unwrap();
    assert_eq!(
        history.live()["spec"]["template"]["containers"][0]["ports"],
        json!([
            {"containerPort": 80, "name": "web", "protocol": "TCP"},
            {"containerPort": 53, "protocol": "UDP"},
            {"containerPort": 53, "protocol": "TCP"},
        ])
    );
}

#[test]
fn stored_items_with_equal_keys_are_owned_as_one() {
    let mut history = ObjectHistory::new();
    let containers =
        |containers: Value| deployment(json!({"spec": {"template": {"containers": containers}}}));
    history.put("m", containers(json!([{"name": "a", "image": "1"}])));
    history.put("m", containers(json!([{"name": "a", "image": "1"}, {"name": "a", "image": "2"}])));
    let owned = |history: &ObjectHistory| history.owned("m", coracle_meta::apply::Operation::Update);
    assert_eq!(
        owned(&history),
        r#"{"f:spec":{".":{},"f:template":{".":{},"f:containers":{".":{},"k:{\"name\":\"a\"}":{}}}}}"#
    );
    history.put("m", containers(json!([{"name": "a", "image": "2"}])));
    assert_eq!(
        owned(&history),
        r#"{"f:spec":{".":{},"f:template":{".":{},"f:containers":{".":{},"k:{\"name\":\"a\"}":{".":{},"f:image":{},"f:name":{}}}}}}"#
    );
    let mut history = ObjectHistory::new();
    history.put(
        "m",
        containers(json!([{"name": "a", "image": "1"}, {"name": "a", "image": "2"}, {"name": "b"}])),
    );
    history.force("me", json!({"spec": {"template": {"containers": [{"name": "a", "image": "3"}]}}}));
    assert_eq!(
        history.live()["spec"]["template"]["containers"],
        json!([{"name": "a", "image": "3"}, {"name": "b"}]),
        "the configuration takes the place of all of them"
    );
}

#[test]
fn atomic_value_is_replaced_and_owned_as_whole() {
    let mut history = ObjectHistory::new();
    history.apply("a", json!({"spec": {"selector": {"matchLabels": {"x": "1"}}}})).unwrap();
    let config = json!({"spec": {"selector": {"matchLabels": {"y": "2"}}}});
    let error = history.apply("b", config.clone()).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"a\": .spec.selector");
    history.force("b", config);
    assert_eq!(history.live()["spec"]["selector"], json!({"matchLabels": {"y": "2"}}));
}
