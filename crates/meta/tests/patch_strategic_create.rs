//! Tests of creating two-way and three-way strategic merge patches.

mod patch_pod;

use coracle_meta::patch::PatchError;
use coracle_meta::patch::strategic::{
    OnConflict, PatchMeta, apply, create_three_way_merge_patch, create_two_way_merge_patch,
};
use serde_json::{Value, json};

#[test]
fn two_way_patch_contains_differences() {
    let (schema, pod) = patch_pod::schema();
    let meta = PatchMeta::new(&schema, pod);
    for (original, modified, expected) in [
        (json!({"name": "a"}), json!({"name": "a"}), json!({})),
        (json!({"name": "a", "replicas": 1}), json!({"name": "b"}), json!({"name": "b", "replicas": null})),
        (
            json!({"labels": {"a": "1", "b": "2"}}),
            json!({"labels": {"a": "3"}}),
            json!({"labels": {"a": "3", "b": null}}),
        ),
        (json!({"labels": {"a": "1"}}), json!({"labels": {}}), json!({"labels": {"a": null}})),
        (json!({"free": {"a": 1}}), json!({"free": [1]}), json!({"free": [1]})),
        // Replaced lists.
        (json!({"tolerations": [{"key": "a"}]}), json!({"tolerations": []}), json!({"tolerations": []})),
        // Sets.
        (json!({"finalizers": []}), json!({"finalizers": ["b", "a"]}), json!({"finalizers": ["b", "a"]})),
        (
            json!({"finalizers": ["a", "b"]}),
            json!({"finalizers": ["c", "b"]}),
            json!({"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["c", "b"]}),
        ),
        (
            json!({"finalizers": ["a", "b"]}),
            json!({"finalizers": ["b", "a"]}),
            json!({"$setElementOrder/finalizers": ["b", "a"]}),
        ),
        (
            json!({"finalizers": ["a"]}),
            json!({"finalizers": []}),
            json!({"$deleteFromPrimitiveList/finalizers": ["a"]}),
        ),
        // Lists merged by key.
        (
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}, {"name": "c"}]}),
            json!({"containers": [{"name": "c"}, {"name": "d"}, {"name": "a", "image": "2"}]}),
            json!({
                "containers": [{"name": "d"}, {"name": "a", "image": "2"}, {"name": "b", "$patch": "delete"}],
                "$setElementOrder/containers": [{"name": "c"}, {"name": "d"}, {"name": "a"}],
            }),
        ),
        (
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            json!({"containers": [{"name": "b"}, {"name": "a"}]}),
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
        ),
        // Retained keys.
        (
            json!({"strategy": {"type": "a", "rolling": {"max": 1}}}),
            json!({"strategy": {"type": "b"}}),
            json!({"strategy": {"$retainKeys": ["type"], "type": "b", "rolling": null}}),
        ),
        (
            json!({"volumes": [{"name": "a", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "a", "hostPath": {}}]}),
            json!({
                "volumes": [{"$retainKeys": ["hostPath", "name"], "name": "a", "emptyDir": null, "hostPath": {}}],
                "$setElementOrder/volumes": [{"name": "a"}],
            }),
        ),
    ] {
        let patch = create_two_way_merge_patch(meta, &original, &modified).unwrap();
        assert_eq!(patch, expected, "{original} {modified}");
        assert_eq!(apply(meta, original, patch), Ok(modified));
    }
}

#[test]
fn objects_that_mismatch_schema_are_rejected() {
    let (schema, pod) = patch_pod::schema();
    let meta = PatchMeta::new(&schema, pod);
    let two_way = |original: Value, modified: Value| create_two_way_merge_patch(meta, &original, &modified);
    let without_key =
        two_way(json!({"containers": [{"name": "a"}]}), json!({"containers": [{"image": "x"}]}));
    assert!(matches!(without_key, Err(PatchError::NoMergeKey { .. })), "{without_key:?}");
    let unknown = two_way(json!({"x": {"a": 1}}), json!({"x": {"a": 2}}));
    assert_eq!(unknown, Err(PatchError::UnknownField { type_name: "", field: "x".to_owned() }));
    assert_eq!(
        two_way(json!({"x": {"a": 1}}), json!({"x": {"a": 1}})),
        Ok(json!({})),
        "equal objects need no schema"
    );
    assert_eq!(two_way(json!(1), json!({})), Err(PatchError::InvalidDocument));
    let lists = two_way(json!({"finalizers": [["a"]]}), json!({"finalizers": [["b"]]}));
    assert_eq!(lists, Err(PatchError::ListOfLists));
}

#[test]
fn three_way_patch_preserves_changes_by_others() {
    let (schema, pod) = patch_pod::schema();
    let meta = PatchMeta::new(&schema, pod);
    for (original, modified, current, expected) in [
        (
            json!({"labels": {"mine": "1", "old": "1"}}),
            json!({"labels": {"mine": "2"}}),
            json!({"labels": {"mine": "1", "old": "1", "theirs": "1"}, "replicas": 3}),
            json!({"labels": {"mine": "2", "theirs": "1"}, "replicas": 3}),
        ),
        (
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "gone"}]}),
            json!({"containers": [{"name": "new"}, {"name": "a", "image": "2"}]}),
            json!({"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "gone"}, {"name": "sidecar"}]}),
            // The new item takes the position of the removed one, behind the one without an order.
            json!({"containers": [{"name": "sidecar"}, {"name": "new"}, {"name": "a", "image": "2", "args": ["x"]}]}),
        ),
        (
            json!({"finalizers": ["mine", "old"]}),
            json!({"finalizers": ["new", "mine"]}),
            json!({"finalizers": ["theirs", "mine", "old"]}),
            json!({"finalizers": ["new", "theirs", "mine"]}),
        ),
        (
            json!({"strategy": {"type": "RollingUpdate"}}),
            json!({"strategy": {"type": "Recreate"}}),
            json!({"strategy": {"type": "RollingUpdate", "rolling": {"max": 1}}}),
            json!({"strategy": {"type": "Recreate"}}),
        ),
        (json!({}), json!({}), json!({"name": "a"}), json!({"name": "a"})),
    ] {
        let patch = create_three_way_merge_patch(meta, &original, &modified, &current, OnConflict::Overwrite)
            .unwrap();
        let patched = apply(meta, current.clone(), patch.clone());
        assert_eq!(patched, Ok(expected), "{original} {modified} {current}: {patch}");
    }
}

#[test]
fn conflict_with_refuse_option_is_rejected() {
    let (schema, pod) = patch_pod::schema();
    let meta = PatchMeta::new(&schema, pod);
    for (original, modified, current, is_conflict) in [
        (json!({"replicas": 1}), json!({"replicas": 2}), json!({"replicas": 3}), true),
        (json!({"replicas": 1}), json!({"replicas": 2}), json!({"replicas": 1, "name": "x"}), false),
        (json!({"replicas": 1}), json!({}), json!({"replicas": 3}), true),
        (json!({"labels": {"a": "1"}}), json!({"labels": {"a": "2"}}), json!({"labels": {"b": "1"}}), true),
        (
            json!({"labels": {"a": "1"}}),
            json!({"labels": {"a": "2"}}),
            json!({"labels": {"a": "1", "b": "1"}}),
            false,
        ),
        (json!({"finalizers": ["a"]}), json!({"finalizers": ["b"]}), json!({"finalizers": ["c"]}), false),
        (
            json!({"tolerations": [{"key": "a"}]}),
            json!({"tolerations": [{"key": "b"}]}),
            json!({"tolerations": [{"key": "c"}]}),
            true,
        ),
        (
            json!({"containers": [{"name": "a", "image": "1"}]}),
            json!({"containers": [{"name": "a", "image": "2"}]}),
            json!({"containers": [{"name": "a", "image": "3"}]}),
            true,
        ),
        (
            json!({"containers": [{"name": "a", "image": "1"}]}),
            json!({"containers": [{"name": "a", "image": "2"}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "3"}]}),
            false,
        ),
        (
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}),
            json!({"containers": [{"name": "a", "image": "2"}, {"name": "b"}]}),
            json!({"containers": [{"name": "b"}]}),
            true,
        ),
    ] {
        let result = create_three_way_merge_patch(meta, &original, &modified, &current, OnConflict::Refuse);
        let found = matches!(result, Err(PatchError::Conflict { .. }));
        assert_eq!(found, is_conflict, "{original} {modified} {current}: {result:?}");
        assert!(is_conflict || result.is_ok(), "{result:?}");
    }
}
