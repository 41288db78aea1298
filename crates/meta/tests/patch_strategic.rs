//! Tests of strategic merge patches, by directive.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod patch_pod;

use coracle_meta::patch::strategic::{PatchMeta, apply};
use coracle_meta::patch::{ErrorClass, PatchError};
use serde_json::{Value, json};

/// Applies each patch to its object, and compares the result.
fn check<const N: usize>(cases: [(Value, Value, Value); N]) {
    let (schema, pod) = patch_pod::schema();
    for (object, patch, expected) in cases {
        let patched = apply(PatchMeta::new(&schema, pod), object.clone(), patch.clone());
        assert_eq!(patched, Ok(expected), "{object} patched with {patch}");
    }
}

fn failure(object: Value, patch: Value) -> PatchError {
    let (schema, pod) = patch_pod::schema();
    apply(PatchMeta::new(&schema, pod), object, patch).unwrap_err()
}

#[test]
fn maps_are_merged_field_by_field() {
    check([
        (json!({"name": "a", "replicas": 1}), json!({"replicas": 2}), json!({"name": "a", "replicas": 2})),
        (
            json!({"labels": {"a": "1", "b": "2"}}),
            json!({"labels": {"b": "3", "c": "4"}}),
            json!({"labels": {"a": "1", "b": "3", "c": "4"}}),
        ),
        (json!({"name": "a"}), json!({}), json!({"name": "a"})),
        (json!({"name": "a"}), json!(null), json!({"name": "a"})),
        // A value of another type is replaced.
        (json!({"labels": {"a": "1"}}), json!({"labels": "x"}), json!({"labels": "x"})),
        (json!({"free": 1}), json!({"free": {"a": 1}}), json!({"free": {"a": 1}})),
        // Values of free-form fields are merged one level deep.
        (json!({"free": {"a": 1, "b": 2}}), json!({"free": {"b": 3}}), json!({"free": {"a": 1, "b": 3}})),
        // Unknown fields are set; the decoder validates them.
        (json!({}), json!({"unknown": {"a": 1}}), json!({"unknown": {"a": 1}})),
    ]);
}

#[test]
fn null_removes_field() {
    check([
        (json!({"name": "a", "replicas": 1}), json!({"replicas": null}), json!({"name": "a"})),
        (
            json!({"labels": {"a": "1", "b": "2"}}),
            json!({"labels": {"a": null}}),
            json!({"labels": {"b": "2"}}),
        ),
        (json!({}), json!({"labels": null}), json!({})),
        // Nulls in new objects are dropped.
        (json!({}), json!({"labels": {"a": null, "b": "1"}}), json!({"labels": {"b": "1"}})),
        (
            json!({}),
            json!({"containers": [{"name": "a", "image": null}]}),
            json!({"containers": [{"name": "a"}]}),
        ),
        (
            json!({"containers": [{"name": "a", "image": "x"}]}),
            json!({"containers": [{"name": "a", "image": null}]}),
            json!({"containers": [{"name": "a"}]}),
        ),
        (json!({"containers": [{"name": "a"}]}), json!({"containers": null}), json!({})),
    ]);
}

#[test]
fn lists_are_merged_by_key() {
    check([
        // Changed, added in front, and unchanged.
        (
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}),
            json!({"containers": [{"name": "b", "image": "2"}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}),
        ),
        (
            json!({"containers": [{"name": "a"}]}),
            json!({"containers": [{"name": "b"}]}),
            json!({"containers": [{"name": "b"}, {"name": "a"}]}),
        ),
        // The order of the patch takes precedence over that of the object.
        (
            json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
            json!({"containers": [{"name": "c"}, {"name": "a"}]}),
            json!({"containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}]}),
        ),
        // Nested lists with numeric keys.
        (
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}], "args": ["x", "y"]}]}),
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 443}, {"containerPort": 80, "protocol": "UDP"}], "args": ["z"]}]}),
            json!({"containers": [{"name": "a", "ports": [{"containerPort": 443}, {"containerPort": 80, "protocol": "UDP"}], "args": ["z"]}]}),
        ),
        // Without merge strategy: replaced.
        (
            json!({"tolerations": [{"key": "a"}, {"key": "b"}]}),
            json!({"tolerations": [{"key": "c"}]}),
            json!({"tolerations": [{"key": "c"}]}),
        ),
        (json!({"containers": []}), json!({"containers": []}), json!({"containers": []})),
    ]);
}

#[test]
fn merged_lists_of_scalars_are_united() {
    check([
        (
            json!({"finalizers": ["a", "b"]}),
            json!({"finalizers": ["c", "a"]}),
            json!({"finalizers": ["c", "a", "b"]}),
        ),
        (json!({"finalizers": ["a"]}), json!({"finalizers": ["b", "b"]}), json!({"finalizers": ["b", "a"]})),
        (json!({}), json!({"finalizers": ["b", "a"]}), json!({"finalizers": ["b", "a"]})),
        (json!({"finalizers": ["a"]}), json!({"finalizers": []}), json!({"finalizers": ["a"]})),
    ]);
}

#[test]
fn patch_directive_replaces_and_deletes_maps() {
    check([
        (
            json!({"labels": {"a": "1"}}),
            json!({"labels": {"$patch": "replace", "b": "2"}}),
            json!({"labels": {"b": "2"}}),
        ),
        (json!({"labels": {"a": "1"}}), json!({"labels": {"$patch": "replace"}}), json!({"labels": {}})),
        (
            json!({"labels": {"a": "1"}}),
            json!({"labels": {"$patch": "delete", "b": "2"}}),
            json!({"labels": {}}),
        ),
        (json!({"name": "a"}), json!({"$patch": "replace", "replicas": 1}), json!({"replicas": 1})),
        (json!({"name": "a"}), json!({"$patch": "delete"}), json!({})),
        // Without an object to replace or delete, the directive has no effect.
        (json!({}), json!({"labels": {"$patch": "delete"}}), json!({})),
        (json!({}), json!({"labels": {"$patch": "replace", "a": "1"}}), json!({})),
        (
            json!({}),
            json!({"strategy": {"rolling": {"$patch": "delete"}, "type": "x"}}),
            json!({"strategy": {"type": "x"}}),
        ),
    ]);
    for directive in [json!("merge"), json!("other"), json!(1), json!(null)] {
        let error = failure(json!({"labels": {"a": "1"}}), json!({"labels": {"$patch": directive}}));
        assert!(matches!(error, PatchError::UnknownDirective { .. }), "{directive}: {error}");
    }
    let error = failure(json!({"name": "a"}), json!({"$patch": "merge", "name": "b"}));
    assert_eq!(error.to_string(), "unknown patch type: merge in map: map[$patch:merge name:b]");
    assert_eq!(error.class(), ErrorClass::Unclassified);
}

#[test]
fn patch_directive_replaces_and_deletes_items() {
    let containers = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}, {"name": "c"}]});
    check([
        (
            containers.clone(),
            json!({"containers": [{"name": "b", "$patch": "delete"}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "c"}]}),
        ),
        (containers.clone(), json!({"containers": [{"name": "x", "$patch": "delete"}]}), containers.clone()),
        (
            containers.clone(),
            json!({"containers": [{"$patch": "replace"}, {"name": "x"}, {"name": "a"}]}),
            json!({"containers": [{"name": "x"}, {"name": "a"}]}),
        ),
        (containers.clone(), json!({"containers": [{"$patch": "replace"}]}), json!({"containers": []})),
        (
            containers.clone(),
            json!({"containers": [{"$patch": "replace"}, {"name": "a", "$patch": "delete"}, {"name": "b"}]}),
            json!({"containers": [{"name": "b"}]}),
        ),
        // Directives are not added to a new list.
        (
            json!({}),
            json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "b"}]}),
            json!({"containers": [{"name": "b"}]}),
        ),
    ]);
    let error = failure(containers.clone(), json!({"containers": [{"name": "a", "$patch": "merge"}]}));
    assert_eq!(error, PatchError::MergeDirectiveInList);
    let error = failure(containers, json!({"containers": [{"name": "a", "$patch": "other"}]}));
    assert_eq!(error.to_string(), "unknown patch type: other in map: map[$patch:other name:a]");
}

#[test]
fn delete_from_primitive_list_removes_scalars() {
    check([
        (
            json!({"finalizers": ["a", "b", "c"]}),
            json!({"$deleteFromPrimitiveList/finalizers": ["b", "x"]}),
            json!({"finalizers": ["a", "c"]}),
        ),
        (
            json!({"finalizers": ["a"]}),
            json!({"$deleteFromPrimitiveList/finalizers": ["a"]}),
            json!({"finalizers": []}),
        ),
        (json!({}), json!({"$deleteFromPrimitiveList/finalizers": ["a"]}), json!({})),
        // From any list of scalars, merged or not.
        (
            json!({"containers": [{"name": "a", "args": ["x", "y"]}]}),
            json!({"containers": [{"name": "a", "$deleteFromPrimitiveList/args": ["x"]}]}),
            json!({"containers": [{"name": "a", "args": ["y"]}]}),
        ),
        // Combined with additions.
        (
            json!({"finalizers": ["a", "b"]}),
            json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}),
            json!({"finalizers": ["c", "b"]}),
        ),
    ]);
    for key in ["$deleteFromPrimitiveList", "$deleteFromPrimitiveListfinalizers"] {
        let error = failure(json!({"finalizers": ["a"]}), json!({key: ["a"]}));
        assert_eq!(error, PatchError::InvalidDeletionList);
        assert_eq!(error.class(), ErrorClass::BadRequest);
    }
}

#[test]
fn set_element_order_orders_items() {
    check([
        (
            json!({"finalizers": ["a", "b", "c"]}),
            json!({"$setElementOrder/finalizers": ["c", "a", "b"]}),
            json!({"finalizers": ["c", "a", "b"]}),
        ),
        // Combined with additions and deletions.
        (
            json!({"finalizers": ["a", "b", "c"]}),
            json!({"$setElementOrder/finalizers": ["d", "c", "b"], "finalizers": ["d"], "$deleteFromPrimitiveList/finalizers": ["a"]}),
            json!({"finalizers": ["d", "c", "b"]}),
        ),
        // Items missing in the order keep their place in the object, as far as possible.
        (
            json!({"containers": [{"name": "a"}, {"name": "other"}, {"name": "b"}]}),
            json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}], "containers": [{"name": "c"}]}),
            json!({"containers": [{"name": "c"}, {"name": "a"}, {"name": "other"}, {"name": "b"}]}),
        ),
        (
            json!({"containers": [{"name": "a"}, {"name": "b", "image": "1"}]}),
            json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a", "$patch": "delete"}, {"name": "b", "image": "2"}]}),
            json!({"containers": [{"name": "b", "image": "2"}]}),
        ),
        // For a list that the patch adds, and for an absent list.
        (
            json!({}),
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b"}, {"name": "a"}]}),
            json!({"containers": [{"name": "b"}, {"name": "a"}]}),
        ),
        (json!({}), json!({"$setElementOrder/containers": [{"name": "b"}]}), json!({})),
    ]);
}

#[test]
fn element_order_that_mismatches_list_is_rejected() {
    let object = json!({"containers": [{"name": "a"}], "finalizers": ["a"]});
    let error = failure(object.clone(), json!({"$setElementOrder/finalizers": ["a"], "finalizers": ["b"]}));
    assert_eq!(
        error.to_string(),
        "The order in patch list:\n[b]\n doesn't match $setElementOrder list:\n[a]\n"
    );
    for (patch, expected) in [
        (
            json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [{"name": "b"}, {"name": "a"}]}),
            ErrorClass::Unclassified,
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "a"}], "containers": null}),
            ErrorClass::Unclassified,
        ),
        (json!({"$setElementOrder/containers": [{}]}), ErrorClass::Unclassified),
        (json!({"$setElementOrder/containers": ["a"]}), ErrorClass::Unclassified),
        (json!({"$setElementOrder/containers": "a"}), ErrorClass::Unclassified),
        (json!({"$setElementOrder/unknown": []}), ErrorClass::Unclassified),
        (
            json!({"$setElementOrder/tolerations": [{"key": "a"}], "tolerations": [{"key": "a"}]}),
            ErrorClass::Unclassified,
        ),
        (json!({"$setElementOrder": []}), ErrorClass::BadRequest),
    ] {
        assert_eq!(failure(object.clone(), patch.clone()).class(), expected, "{patch}");
    }
}

#[test]
fn retain_keys_drops_other_fields() {
    check([
        (
            json!({"strategy": {"type": "RollingUpdate", "rolling": {"max": 1}}}),
            json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
            json!({"strategy": {"type": "Recreate"}}),
        ),
        (
            json!({"strategy": {"type": "x", "rolling": {"max": 1}}}),
            json!({"strategy": {"$retainKeys": ["rolling"]}}),
            json!({"strategy": {"rolling": {"max": 1}}}),
        ),
        (
            json!({"strategy": {"type": "x"}}),
            json!({"strategy": {"$retainKeys": [], "type": null}}),
            json!({"strategy": {}}),
        ),
        (
            json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "a", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}),
            json!({"volumes": [{"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "emptyDir": {}}]}),
        ),
        // For any object, even without the patch strategy.
        (
            json!({"labels": {"a": "1", "b": "2"}}),
            json!({"labels": {"$retainKeys": ["b"]}}),
            json!({"labels": {"b": "2"}}),
        ),
    ]);
    for keys in [json!(["rolling"]), json!("type"), json!([["type"]]), json!(null)] {
        let error = failure(json!({"strategy": {}}), json!({"strategy": {"$retainKeys": keys, "type": "x"}}));
        assert_eq!(error, PatchError::InvalidRetainKeys, "{keys}");
        assert_eq!(error.class(), ErrorClass::BadRequest);
    }
}

#[test]
fn item_without_merge_key_is_rejected() {
    let object = json!({"containers": [{"name": "a"}]});
    let error = failure(object.clone(), json!({"containers": [{"image": "x"}]}));
    assert_eq!(error.to_string(), "map: map[image:x] does not contain declared merge key: name");
    assert_eq!(error.class(), ErrorClass::Unclassified);
    let error = failure(object.clone(), json!({"containers": [{"$patch": "delete"}]}));
    assert_eq!(error.to_string(), "map: map[$patch:delete] does not contain declared merge key: name");
    let error = failure(object, json!({"containers": ["a"]}));
    assert_eq!(error.to_string(), "list element types are not identical: [[map[name:a]] [a]]");
    let error = failure(json!({"containers": []}), json!({"containers": ["a"]}));
    assert_eq!(error.to_string(), "expected a map[string]interface {}, but received a string");
    let error = failure(json!({"finalizers": [["a"]]}), json!({"finalizers": [["a"]]}));
    assert_eq!(error, PatchError::ListOfLists);
    assert_eq!(error.class(), ErrorClass::Unprocessable);
    let error = failure(json!({"finalizers": []}), json!({"finalizers": [{"a": 1}]}));
    assert_eq!(error, PatchError::NoMergeKeyDeclared);
    let error = failure(json!({"finalizers": [null]}), json!({"finalizers": ["a"]}));
    assert_eq!(error.class(), ErrorClass::Unclassified);
}

#[test]
fn merge_of_undescribed_field_is_rejected() {
    let error = failure(json!({"free": {"a": {"b": 1}}}), json!({"free": {"a": {"c": 1}}}));
    assert_eq!(error, PatchError::UnknownField { type_name: "", field: "a".to_owned() });
    let error = failure(json!({"labels": {"a": {}}}), json!({"labels": {"a": {}}}));
    assert_eq!(error.to_string(), "merging an object in json but data type is not struct, instead is: map");
    let error = failure(json!({"unknown": {}}), json!({"unknown": {}}));
    assert_eq!(error, PatchError::UnknownField { type_name: "", field: "unknown".to_owned() });
    let error = failure(json!({"strategy": []}), json!({"strategy": []}));
    assert_eq!(error.to_string(), "expected slice or array type, but got: struct");
}

#[test]
fn body_that_is_not_an_object_is_rejected() {
    let error = failure(json!({}), json!([]));
    assert_eq!(
        error.to_string(),
        "json: cannot unmarshal array into Go value of type map[string]interface {}"
    );
    assert_eq!(error.class(), ErrorClass::BadRequest);
    assert_eq!(failure(json!([]), json!({})), PatchError::InvalidDocument);
}

#[test]
fn lists_without_schema_are_replaced() {
    let patched = apply(
        PatchMeta::untyped(),
        json!({"a": {"b": {"c": 1}, "list": [{"name": "x"}]}}),
        json!({"a": {"b": {"d": {"$patch": "delete"}}, "list": [{"name": "y"}]}}),
    );
    assert_eq!(patched, Ok(json!({"a": {"b": {"c": 1}, "list": [{"name": "y"}]}})));
}

#[test]
fn merge_of_long_lists_is_not_quadratic() {
    let items = |image: &str| (0..20_000).map(|at| json!({"name": at.to_string(), "image": image})).collect();
    let object: Value = json!({"containers": Value::Array(items("1"))});
    let mut patch = json!({"containers": Value::Array(items("2"))});
    patch["$setElementOrder/containers"] = (0..20_000).map(|at| json!({"name": at.to_string()})).collect();
    check([(object, patch, json!({"containers": Value::Array(items("2"))}))]);
}
