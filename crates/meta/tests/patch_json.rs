//! Tests of JSON patches.

use coracle_meta::patch::json::JsonPatch;
use coracle_meta::patch::{
    ErrorClass, MAX_COPY_BYTES, MAX_JSON_PATCH_OPERATIONS, MAX_SHIFTED_ITEMS, PatchError,
};
use serde_json::{Value, json};

fn apply(object: Value, operations: Value) -> Result<Value, PatchError> {
    JsonPatch::from_value(operations)?.apply(object)
}

#[test]
fn operations_produce_expected_documents() {
    for (object, operations, expected) in [
        // Each operation.
        (json!({}), json!([{"op": "add", "path": "/a", "value": 1}]), json!({"a": 1})),
        (json!({"a": 1}), json!([{"op": "remove", "path": "/a"}]), json!({})),
        (json!({"a": 1}), json!([{"op": "replace", "path": "/a", "value": [2]}]), json!({"a": [2]})),
        (json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}]), json!({"b": 1})),
        (
            json!({"a": {"b": 1}}),
            json!([{"op": "copy", "from": "/a", "path": "/a/c"}]),
            json!({"a": {"b": 1, "c": {"b": 1}}}),
        ),
        (
            json!({"a": {"b": [1, null]}}),
            json!([{"op": "test", "path": "/a", "value": {"b": [1, null]}}]),
            json!({"a": {"b": [1, null]}}),
        ),
        // Lists.
        (json!({"a": [1, 2]}), json!([{"op": "add", "path": "/a/1", "value": 9}]), json!({"a": [1, 9, 2]})),
        (json!({"a": [1, 2]}), json!([{"op": "add", "path": "/a/2", "value": 9}]), json!({"a": [1, 2, 9]})),
        (json!({"a": [1, 2]}), json!([{"op": "add", "path": "/a/-", "value": 9}]), json!({"a": [1, 2, 9]})),
        (json!({"a": [1, 2]}), json!([{"op": "add", "path": "/a/-1", "value": 9}]), json!({"a": [1, 2, 9]})),
        (json!({"a": [1, 2]}), json!([{"op": "add", "path": "/a/-3", "value": 9}]), json!({"a": [9, 1, 2]})),
        (json!({"a": [1, 2]}), json!([{"op": "replace", "path": "/a/-1", "value": 9}]), json!({"a": [1, 9]})),
        (json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/-2"}]), json!({"a": [2]})),
        (
            json!({"a": [{"b": 1}]}),
            json!([{"op": "add", "path": "/a/0/c", "value": 2}]),
            json!({"a": [{"b": 1, "c": 2}]}),
        ),
        (
            json!({"a": [1, 2, 3]}),
            json!([{"op": "move", "from": "/a/0", "path": "/a/2"}]),
            json!({"a": [2, 3, 1]}),
        ),
        // Deviations from the RFC.
        (json!({}), json!([{"op": "replace", "path": "/a", "value": 1}]), json!({"a": 1})),
        (json!({}), json!([{"op": "add", "path": "/a"}]), json!({"a": null})),
        (json!({}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"b": null})),
        (json!({"a": 1}), json!([{"op": "replace", "path": "ignored/a", "value": 2}]), json!({"a": 2})),
        (json!({"a": 1}), json!([{"op": "test", "path": "/b", "value": null}]), json!({"a": 1})),
        (json!({"a": 1}), json!([{"op": "test", "path": "/b"}]), json!({"a": 1})),
        (json!({"a": 1}), json!(null), json!({"a": 1})),
        (json!({"a": 1}), json!([]), json!({"a": 1})),
        // Field names.
        (
            json!({"a/b": 1, "m~n": 2}),
            json!([{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/m~0n"}]),
            json!({}),
        ),
        (
            json!({"": 1, "-": 2}),
            json!([{"op": "remove", "path": "/"}, {"op": "remove", "path": "/-"}]),
            json!({}),
        ),
        // The whole document.
        (json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {"b": 2}}]), json!({"b": 2})),
        (json!({"a": 1}), json!([{"op": "test", "path": "", "value": {"a": 1}}]), json!({"a": 1})),
    ] {
        assert_eq!(apply(object.clone(), operations.clone()), Ok(expected), "{object} {operations}");
    }
}

#[test]
fn failing_operation_fails_whole_patch() {
    let object = json!({"a": [1, 2], "b": {"c": "x"}, "n": null});
    for (operation, message) in [
        (
            json!({"op": "add", "path": "/x/y", "value": 1}),
            "add operation does not apply: doc is missing path: \"/x/y\": missing value",
        ),
        (
            json!({"op": "add", "path": "", "value": {}}),
            "add operation does not apply: doc is missing path: \"\": missing value",
        ),
        (
            json!({"op": "add", "path": "/b/c/d", "value": 1}),
            "add operation does not apply: doc is missing path: \"/b/c/d\": missing value",
        ),
        (
            json!({"op": "add", "path": "/n/d", "value": 1}),
            "add operation does not apply: doc is missing path: \"/n/d\": missing value",
        ),
        (
            json!({"op": "add", "path": "/a/3", "value": 1}),
            "error in add for path: '/a/3': Unable to access invalid index: 3: invalid index referenced",
        ),
        (
            json!({"op": "add", "path": "/a/-4", "value": 1}),
            "error in add for path: '/a/-4': Unable to access invalid index: -4: invalid index referenced",
        ),
        (
            json!({"op": "add", "path": "/a/x", "value": 1}),
            "error in add for path: '/a/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (json!({"op": "add", "value": 1}), "add operation failed to decode path: missing value"),
        (
            json!({"op": "remove", "path": "/x"}),
            "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
        ),
        (
            json!({"op": "remove", "path": "/a/2"}),
            "error in remove for path: '/a/2': Unable to access invalid index: 2: invalid index referenced",
        ),
        (
            json!({"op": "remove", "path": "/a/-"}),
            "error in remove for path: '/a/-': strconv.Atoi: parsing \"-\": invalid syntax",
        ),
        (
            json!({"op": "replace", "path": "/a/2", "value": 1}),
            "replace operation does not apply: doc is missing key: /a/2: missing value",
        ),
        (
            json!({"op": "replace", "path": "/x/y", "value": 1}),
            "replace operation does not apply: doc is missing path: /x/y: missing value",
        ),
        (json!({"op": "replace", "path": "", "value": 1}), "replace operation value must be object or array"),
        (
            json!({"op": "replace", "value": 1}),
            "replace operation failed to decode path: operation missing path field: missing value",
        ),
        (
            json!({"op": "move", "from": "/x", "path": "/y"}),
            "error in move for path: 'x': Unable to remove nonexistent key: x: missing value",
        ),
        (
            json!({"op": "move", "from": "/b", "path": "/b/d"}),
            "move operation does not apply: doc is missing destination path: /b/d: missing value",
        ),
        (
            json!({"op": "move", "path": "/y"}),
            "move operation failed to decode from: operation, missing from field: missing value",
        ),
        (
            json!({"op": "copy", "from": "/a/7", "path": "/y"}),
            "error in copy for from: '/a/7': Unable to access invalid index: 7: invalid index referenced",
        ),
        (
            json!({"op": "copy", "from": "/b", "path": "/a/7"}),
            "error while adding value during copy: Unable to access invalid index: 7: invalid index referenced",
        ),
        (json!({"op": "test", "path": "/b/c", "value": "y"}), "testing value /b/c failed: test failed"),
        (json!({"op": "test", "path": "/b/c"}), "testing value /b/c failed: test failed"),
        (
            json!({"op": "test", "path": "/x/y", "value": 1}),
            "test operation does not apply: is missing path: /x/y: missing value",
        ),
        (
            json!({"op": "test", "path": 5, "value": 1}),
            "test operation failed to decode path: json: cannot unmarshal number into Go value of type string",
        ),
        (json!({"op": "frob", "path": "/a"}), "Unexpected kind: frob"),
        (json!({"path": "/a"}), "Unexpected kind: unknown"),
        (json!(null), "Unexpected kind: unknown"),
    ] {
        let error =
            apply(object.clone(), json!([{"op": "add", "path": "/z", "value": 1}, operation])).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.class(), ErrorClass::Unprocessable, "{message}");
        assert!(matches!(error, PatchError::OperationFailed { index: 1, .. }), "{error:?}");
    }
}

#[test]
fn body_that_is_not_a_patch_is_a_bad_request() {
    for (body, message) in [
        ("{}", "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        ("[1]", "json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
        ("[", "EOF while parsing a list at line 1 column 1"),
    ] {
        let error = JsonPatch::from_slice(body.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.class(), ErrorClass::BadRequest);
    }
    let deep = "[".repeat(100_000);
    assert_eq!(JsonPatch::from_slice(deep.as_bytes()).unwrap_err().class(), ErrorClass::BadRequest);
}

#[test]
fn field_validation_finds_unknown_fields() {
    let strict = JsonPatch::strict_errors;
    let body =
        json!([{"op": "add", "path": "/a", "value": {"x": 1}, "foo": 1}, {"from": "/a", "op": null}, null]);
    assert_eq!(strict(&body).unwrap(), ["json patch unknown field \"[0].foo\""]);
    for (body, message) in [
        (
            json!({}),
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            json!([1]),
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        (
            json!([{"op": 1}]),
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
    ] {
        let error = strict(&body).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.class(), ErrorClass::BadRequest);
    }
}

#[test]
fn too_many_operations_are_rejected() {
    let test = json!({"op": "test", "path": "/a", "value": 1});
    let object = json!({"a": 1});
    assert!(apply(object.clone(), Value::from(vec![test.clone(); MAX_JSON_PATCH_OPERATIONS])).is_ok());
    let error = apply(object, Value::from(vec![test; MAX_JSON_PATCH_OPERATIONS + 1])).unwrap_err();
    assert_eq!(error, PatchError::TooManyOperations { operations: 10_001 });
    assert_eq!(error.class(), ErrorClass::TooLarge);
    assert_eq!(error.to_string(), "The allowed maximum operations in a JSON patch is 10000, got 10001");
}

#[test]
fn copies_beyond_size_limit_are_rejected() {
    let object = json!({"a": "x".repeat(MAX_COPY_BYTES / 2 - 2)});
    let copy = json!({"op": "copy", "from": "/a", "path": "/b"});
    assert!(apply(object.clone(), json!([copy, copy])).is_ok());
    let error = apply(object, json!([copy, copy, copy])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Unable to complete the copy, the accumulated size increase of copy is 4718592, exceeding the limit 3145728"
    );
    assert_eq!(error.class(), ErrorClass::Unprocessable);
}

#[test]
fn copies_beyond_memory_limit_are_rejected() {
    // 60 KB of text, and 5 MB of maps.
    let object = json!({"a": vec![json!({"a": 0}); 7_500]});
    let copies = |count: usize| -> Value {
        (0..count).map(|at| json!({"op": "copy", "from": "/a", "path": format!("/b{at}")})).collect()
    };
    assert!(apply(object.clone(), copies(2)).is_ok());
    let error = apply(object, copies(40)).unwrap_err();
    assert_eq!(error.class(), ErrorClass::TooLarge, "{error}");
}

#[test]
fn insertions_that_shift_too_many_items_are_rejected() {
    let insert = json!({"op": "add", "path": "/a/0", "value": 1});
    let object = |items: usize| json!({"a": vec![0; items]});
    assert!(apply(object(1_000), Value::from(vec![insert.clone(); 5_000])).is_ok());
    let error = apply(object(MAX_SHIFTED_ITEMS / 100), Value::from(vec![insert; 101])).unwrap_err();
    assert_eq!(error.class(), ErrorClass::TooLarge, "{error}");
}

#[test]
fn nested_copies_beyond_depth_limit_are_rejected() {
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(check_nested_copies).unwrap();
    thread.join().unwrap();
}

fn check_nested_copies() {
    let inward = |times: usize| format!("/a{}", "/a".repeat(times));
    let doubling: Value =
        (0..20).map(|power| json!({"op": "copy", "from": "/a", "path": inward(1 << power)})).collect();
    let error = apply(json!({"a": {}}), doubling).expect_err("the depth limit");
    assert_eq!(error.class(), ErrorClass::Unprocessable);
    assert_eq!(error.to_string(), "exceeded max depth of 10000");
    let moves: Value = (0..MAX_JSON_PATCH_OPERATIONS / 2)
        .flat_map(|_| {
            [
                json!({"op": "move", "from": "/a", "path": "/b/a"}),
                json!({"op": "move", "from": "/b/a", "path": "/a"}),
            ]
        })
        .collect();
    let object = json!({"a": vec![1; 1000], "b": {}});
    assert_eq!(
        apply(object.clone(), moves),
        Ok(object),
        "a move that does not increase the depth is allowed"
    );
}
