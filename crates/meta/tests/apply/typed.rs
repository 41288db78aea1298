//! Tests of field sets, comparison, removal and extraction of typed values.

use coracle_meta::apply::FieldSet;
use serde_json::{Value, json};

use crate::fixture::Kind;

fn spec(spec: Value) -> Value {
    json!({"spec": spec})
}

#[test]
fn field_set_has_leaves_items_and_empty_values() {
    for (fields, expected) in [
        (json!({}), r#"{"f:spec":{}}"#),
        (json!(null), r#"{"f:spec":{}}"#),
        (json!({"replicas": 1}), r#"{"f:spec":{"f:replicas":{}}}"#),
        (json!({"replicas": null}), r#"{"f:spec":{"f:replicas":{}}}"#),
        (json!({"selector": {"matchLabels": {}}}), r#"{"f:spec":{"f:selector":{}}}"#),
        (json!({"template": {}}), r#"{"f:spec":{"f:template":{}}}"#),
        (json!({"template": {"labels": {"a": "b"}}}), r#"{"f:spec":{"f:template":{"f:labels":{"f:a":{}}}}}"#),
        (json!({"tags": []}), "{}"),
        (json!({"tags": null}), r#"{"f:spec":{"f:tags":{}}}"#),
        (json!({"tags": ["b", "a", "b"]}), r#"{"f:spec":{"f:tags":{"v:\"a\"":{},"v:\"b\"":{}}}}"#),
        (
            json!({"free": {"known": "a", "x": {"y": 1}, "z": [1]}}),
            r#"{"f:spec":{"f:free":{"f:known":{},"f:x":{".":{},"f:y":{}},"f:z":{}}}}"#,
        ),
        (json!({"any": {"x": {}, "y": [{"z": 1}]}}), r#"{"f:spec":{"f:any":{"f:x":{},"f:y":{}}}}"#),
        (json!({"any": 1}), r#"{"f:spec":{"f:any":{}}}"#),
        (
            json!({"template": {"containers": [{"name": "b", "args": []}, {"name": "a"}]}}),
            r#"{"f:spec":{"f:template":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}},"k:{\"name\":\"b\"}":{".":{},"f:args":{},"f:name":{}}}}}}"#,
        ),
        (
            json!({"template": {"containers": [{"name": "a", "image": "1"}, {"name": "a", "image": "2"}]}}),
            r#"{"f:spec":{"f:template":{"f:containers":{"k:{\"name\":\"a\"}":{}}}}}"#,
        ),
    ] {
        let set = Kind::new().object_type().to_field_set(&spec(fields.clone()));
        assert_eq!(set.to_json(), expected, "{fields}");
    }
}

#[test]
fn compare_returns_removed_modified_and_added_fields() {
    let none = "{}";
    for (old, new, removed, modified, added) in [
        (json!({"replicas": 1}), json!({"replicas": 1.0}), none, none, none),
        (json!({"replicas": 1}), json!({"replicas": 2}), none, r#"{"f:spec":{"f:replicas":{}}}"#, none),
        (json!({"replicas": 1}), json!({}), r#"{"f:spec":{"f:replicas":{}}}"#, none, none),
        (
            json!({}),
            json!({"template": {"labels": {"a": "b"}}}),
            none,
            none,
            r#"{"f:spec":{"f:template":{".":{},"f:labels":{".":{},"f:a":{}}}}}"#,
        ),
        (
            json!({"nodeSelector": null}),
            json!({"nodeSelector": {"a": "b"}}),
            none,
            none,
            r#"{"f:spec":{"f:nodeSelector":{"f:a":{}}}}"#,
        ),
        (
            json!({"nodeSelector": null}),
            json!({"nodeSelector": {}}),
            none,
            r#"{"f:spec":{"f:nodeSelector":{}}}"#,
            none,
        ),
        (
            json!({"tags": ["a", "b"]}),
            json!({"tags": ["c", "a"]}),
            r#"{"f:spec":{"f:tags":{"v:\"b\"":{}}}}"#,
            none,
            r#"{"f:spec":{"f:tags":{"v:\"c\"":{}}}}"#,
        ),
        (json!({"tags": ["a", "b"]}), json!({"tags": ["b", "a"]}), none, none, none),
        (
            json!({"selector": {}}),
            json!({"selector": {"matchLabels": {}}}),
            none,
            r#"{"f:spec":{"f:selector":{}}}"#,
            none,
        ),
        (
            json!({"any": [1]}),
            json!({"any": {"a": 1}}),
            none,
            r#"{"f:spec":{"f:any":{}}}"#,
            r#"{"f:spec":{"f:any":{"f:a":{}}}}"#,
        ),
        (
            json!({"any": {"a": 1}}),
            json!({"any": "x"}),
            r#"{"f:spec":{"f:any":{"f:a":{}}}}"#,
            r#"{"f:spec":{"f:any":{}}}"#,
            none,
        ),
    ] {
        let found = Kind::new().object_type().compare(&spec(old.clone()), &spec(new.clone()));
        let sets = [found.removed.to_json(), found.modified.to_json(), found.added.to_json()];
        assert_eq!(sets, [removed, modified, added], "{old} to {new}");
        let is_same = [removed, modified, added] == [none; 3];
        assert_eq!(found.is_same(), is_same);
    }
}

#[test]
fn fields_are_removed_or_extracted() {
    let object = spec(json!({
        "replicas": 1,
        "nodeSelector": {"a": "1", "b": "2"},
        "tags": ["x", "y"],
        "selector": {"matchLabels": {}},
        "template": {"containers": [{"name": "c", "image": "i"}, {"name": "d"}]},
    }));
    for (fields, without, only) in [
        (
            r#"{"f:spec":{"f:replicas":{}}}"#,
            json!({"nodeSelector": {"a": "1", "b": "2"}, "tags": ["x", "y"], "selector": {"matchLabels": {}}, "template": {"containers": [{"name": "c", "image": "i"}, {"name": "d"}]}}),
            json!({"replicas": 1}),
        ),
        (
            r#"{"f:spec":{"f:nodeSelector":{"f:a":{}},"f:selector":{},"f:replicas":{},"f:tags":{"v:\"x\"":{}},"f:template":{"f:containers":{"k:{\"name\":\"c\"}":{"f:image":{}},"k:{\"name\":\"d\"}":{}}}}}"#,
            json!({"nodeSelector": {"b": "2"}, "tags": ["y"], "template": {"containers": [{"name": "c"}]}}),
            json!({"nodeSelector": {"a": "1"}, "selector": {"matchLabels": {}}, "replicas": 1, "tags": ["x"], "template": {"containers": [{"image": "i"}, {"name": "d"}]}}),
        ),
        (
            r#"{"f:spec":{"f:nodeSelector":{"f:a":{},"f:b":{}},"f:tags":{"v:\"x\"":{},"v:\"y\"":{}},"f:template":{},"f:selector":{},"f:replicas":{}}}"#,
            json!({"nodeSelector": null, "tags": null}),
            object["spec"].clone(),
        ),
    ] {
        let (kind, set) = (Kind::new(), FieldSet::from_json(fields).unwrap());
        assert_eq!(kind.object_type().remove(object.clone(), &set)["spec"], without, "{fields}");
        assert_eq!(kind.object_type().extract(&object, &set)["spec"], only, "{fields}");
    }
}

#[test]
fn declared_parents_of_owned_fields_are_added() {
    let set = FieldSet::from_json(
        r#"{"f:spec":{"f:template":{"f:containers":{"k:{\"name\":\"a\"}":{"f:resources":{"f:limits":{"f:cpu":{}}}}},"f:labels":{"f:x":{}}},"f:free":{"f:y":{"f:z":{}}}}}"#,
    )
    .unwrap();
    assert_eq!(
        Kind::new().object_type().with_named_fields(set).to_json(),
        concat!(
            r#"{"f:spec":{".":{},"f:free":{".":{},"f:y":{"f:z":{}}},"f:template":{".":{},"f:containers":{".":{},"#,
            r#""k:{\"name\":\"a\"}":{"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{}}}}},"f:labels":{".":{},"f:x":{}}}}}"#
        )
    );
}
