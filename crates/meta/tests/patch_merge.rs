//! Tests of JSON merge patches.

use coracle_meta::patch::{ErrorClass, PatchError, merge};
use serde_json::json;

#[test]
fn apply_merges_patch_into_object() {
    for (object, patch, expected) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": "b"}), json!({"x": null}), json!({"a": "b"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (
            json!({"a": {"b": "c", "d": 1}}),
            json!({"a": {"b": null, "e": {"f": 1}}}),
            json!({"a": {"d": 1, "e": {"f": 1}}}),
        ),
        (json!({}), json!({"a": {"b": null, "c": 1}}), json!({"a": {"c": 1}})),
        (json!({"a": null}), json!({"a": {"b": null}}), json!({"a": {}})),
        (json!({"a": 1}), json!({"a": {"b": null}}), json!({"a": {}})),
        (json!({"a": 1}), json!({}), json!({"a": 1})),
        // Null fields of objects in lists are removed, null items are not,
        (json!({}), json!({"a": [null, {"b": null, "c": 1}]}), json!({"a": [null, {"c": 1}]})),
        (json!({"a": 1}), json!({"a": [{"b": null}]}), json!({"a": [{}]})),
        // unless the list replaces an object.
        (json!({"a": {}}), json!({"a": [{"b": null}]}), json!({"a": [{"b": null}]})),
        (json!({"a": 1}), json!([{"b": null}]), json!([{}])),
    ] {
        assert_eq!(merge::apply(object.clone(), patch.clone()), Ok(expected), "{object} {patch}");
    }
}

#[test]
fn scalar_patch_is_rejected() {
    for patch in [json!(null), json!(1), json!("a"), json!(true)] {
        let error = merge::apply(json!({"a": 1}), patch).unwrap_err();
        assert_eq!(error, PatchError::InvalidMergePatch);
        assert_eq!(error.to_string(), "Invalid JSON Patch");
        assert_eq!(error.class(), ErrorClass::BadRequest);
    }
}

#[test]
fn create_merge_patch_returns_difference() {
    for (original, modified, expected) in [
        (json!({"a": 1}), json!({"a": 1}), json!({})),
        (json!({"a": 1}), json!({"a": 1.0}), json!({"a": 1.0})),
        (json!({"a": 1, "b": 2}), json!({"b": 3, "c": 4}), json!({"a": null, "b": 3, "c": 4})),
        (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1}}), json!({"a": {"c": null}})),
        (json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 3}]}), json!({"a": [1, {"b": 3}]})),
        (json!({"a": {"b": 1}}), json!({"a": []}), json!({"a": []})),
        (json!({}), json!({"a": {}}), json!({"a": {}})),
    ] {
        let patch = merge::create_merge_patch(&original, &modified).unwrap();
        assert_eq!(patch, expected, "{original} {modified}");
    }
    assert_eq!(merge::create_merge_patch(&json!([]), &json!({})), Err(PatchError::InvalidDocument));
}

#[test]
fn three_way_patch_preserves_changes_by_others() {
    for (original, modified, current, expected) in [
        // Set by us, by other clients, and by us again.
        (json!({"a": 1}), json!({"a": 2}), json!({"a": 1, "other": 1}), json!({"a": 2})),
        (json!({"a": 1}), json!({"a": 1}), json!({"a": 3}), json!({"a": 1})),
        // Removed by us, and not by us.
        (
            json!({"a": 1, "b": {"c": 1}}),
            json!({"b": {}}),
            json!({"a": 1, "b": {"c": 1, "d": 2}}),
            json!({"a": null, "b": {"c": null}}),
        ),
        (json!({}), json!({}), json!({"a": 1}), json!({})),
        (json!({"a": 1}), json!({}), json!({}), json!({"a": null})),
        // An empty object is a value.
        (json!({}), json!({"a": {}}), json!({}), json!({"a": {}})),
    ] {
        let patch = merge::create_three_way_merge_patch(&original, &modified, &current).unwrap();
        assert_eq!(patch, expected, "{original} {modified} {current}");
    }
}
