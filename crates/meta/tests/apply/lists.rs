//! How applied lists are merged: in what order, and by what keys.

use serde_json::{Value, json};

use crate::fixture::{Kind, Story, deployment};

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
fn merged_lists_are_ordered_like_the_configuration() {
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
fn absent_keys_have_their_default() {
    let mut story = Story::new();
    let ports = |ports: Value| json!({"spec": {"template": {"containers": [{"name": "c", "ports": ports}]}}});
    story
        .apply(
            "a",
            ports(json!([{"containerPort": 80, "name": "web"}, {"containerPort": 53, "protocol": "UDP"}])),
        )
        .unwrap();
    story
        .apply(
            "b",
            ports(
                json!([{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 53, "protocol": "TCP"}]),
            ),
        )
        .unwrap();
    assert_eq!(
        story.live()["spec"]["template"]["containers"][0]["ports"],
        json!([
            {"containerPort": 80, "name": "web", "protocol": "TCP"},
            {"containerPort": 53, "protocol": "UDP"},
            {"containerPort": 53, "protocol": "TCP"},
        ])
    );
}

#[test]
fn equal_keys_in_a_stored_object_are_one_item_to_owners() {
    let mut story = Story::new();
    let containers =
        |containers: Value| deployment(json!({"spec": {"template": {"containers": containers}}}));
    story.put("m", containers(json!([{"name": "a", "image": "1"}])));
    story.put("m", containers(json!([{"name": "a", "image": "1"}, {"name": "a", "image": "2"}])));
    let owned = |story: &Story| story.owned("m", coracle_meta::apply::Operation::Update);
    assert_eq!(
        owned(&story),
        r#"{"f:spec":{".":{},"f:template":{".":{},"f:containers":{".":{},"k:{\"name\":\"a\"}":{}}}}}"#
    );
    story.put("m", containers(json!([{"name": "a", "image": "2"}])));
    assert_eq!(
        owned(&story),
        r#"{"f:spec":{".":{},"f:template":{".":{},"f:containers":{".":{},"k:{\"name\":\"a\"}":{".":{},"f:image":{},"f:name":{}}}}}}"#
    );
    let mut story = Story::new();
    story.put(
        "m",
        containers(json!([{"name": "a", "image": "1"}, {"name": "a", "image": "2"}, {"name": "b"}])),
    );
    story.force("me", json!({"spec": {"template": {"containers": [{"name": "a", "image": "3"}]}}}));
    assert_eq!(
        story.live()["spec"]["template"]["containers"],
        json!([{"name": "a", "image": "3"}, {"name": "b"}]),
        "the configuration takes the place of all of them"
    );
}

#[test]
fn atomic_parts_are_replaced_and_owned_as_one() {
    let mut story = Story::new();
    story.apply("a", json!({"spec": {"selector": {"matchLabels": {"x": "1"}}}})).unwrap();
    let config = json!({"spec": {"selector": {"matchLabels": {"y": "2"}}}});
    let error = story.apply("b", config.clone()).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"a\": .spec.selector");
    story.force("b", config);
    assert_eq!(story.live()["spec"]["selector"], json!({"matchLabels": {"y": "2"}}));
}
