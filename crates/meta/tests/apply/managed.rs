//! Tests of decoding and encoding `metadata.managedFields`.

use coracle_meta::apply::{ManagedFields, Operation, is_reset};
use serde_json::{Value, json};

fn entry(changes: Value) -> Value {
    let mut entry = json!({
        "manager": "m",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2024-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:a": {}},
    });
    for (name, value) in changes.as_object().unwrap() {
        entry[name] = value.clone();
    }
    entry
}

#[test]
fn malformed_entry_is_rejected() {
    for (changes, message) in [
        (json!({"operation": "Patch"}), "operation must be `Apply` or `Update`"),
        (json!({"operation": null}), "operation must be `Apply` or `Update`"),
        (json!({"apiVersion": ""}), "apiVersion must not be empty"),
        (json!({"fieldsType": ""}), "missing fieldsType in managed fields entry 0"),
        (json!({"fieldsType": "FieldsV2"}), "invalid fieldsType \"FieldsV2\" in managed fields entry 0"),
        (json!({"time": "yesterday"}), "invalid time \"yesterday\" in managed fields entry 0"),
        (json!({"manager": 3}), "manager of managed fields entry 0 must be a string"),
        (json!({"fieldsV1": []}), "error decoding set: fields must be an object"),
        (
            json!({"fieldsV1": {"a": {}}}),
            "error decoding set: parsing key \"a\" as path element: key must be 2 characters long",
        ),
    ] {
        let error = ManagedFields::decode(Some(&json!([entry(changes.clone())]))).unwrap_err();
        assert_eq!(error.to_string(), message, "{changes}");
    }
    for no_list in [json!({}), json!([1]), json!("x")] {
        assert!(ManagedFields::decode(Some(&no_list)).is_err(), "{no_list}");
    }
    assert_eq!(ManagedFields::decode(None).unwrap().encode(), None);
}

#[test]
fn entries_are_sorted_by_operation_and_age() {
    let entries = json!([
        entry(json!({"manager": "b", "time": "2024-01-01T00:00:02Z"})),
        entry(json!({"manager": "a", "time": "2024-01-01T00:00:02Z", "subresource": "status"})),
        entry(json!({"manager": "a", "time": "2024-01-01T01:00:02+01:00"})),
        entry(json!({"manager": "c", "time": "2024-01-01T00:00:01.5Z"})),
        entry(json!({"manager": "d", "time": null})),
        entry(json!({"manager": "z", "operation": "Apply"})),
    ]);
    let encoded = ManagedFields::decode(Some(&entries)).unwrap().encode().unwrap();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or("none").to_owned();
    let order: Vec<_> = encoded.as_array().unwrap().iter().map(|entry| text(entry, "manager")).collect();
    assert_eq!(order, ["z", "d", "c", "a", "a", "b"]);
    assert_eq!(text(&encoded[2], "time"), "2024-01-01T00:00:01Z");
    assert_eq!(text(&encoded[3], "subresource"), "none");
    assert_eq!(text(&encoded[3], "time"), "2024-01-01T00:00:02Z");
    assert_eq!(encoded[1].get("time"), None);
}

#[test]
fn last_entry_of_manager_wins() {
    for others in [0, 40] {
        let mut entries = vec![entry(json!({})), entry(json!({"fieldsV1": {"f:b": {}}}))];
        entries.extend((0..others).map(|other| entry(json!({"manager": format!("other-{other}")}))));
        entries.push(entry(json!({"operation": "Apply", "fieldsV1": {"f:c": {}}})));
        entries.push(entry(json!({"operation": "Apply", "apiVersion": "v2", "fieldsV1": {"f:d": {}}})));
        let managed = ManagedFields::decode(Some(&json!(entries))).unwrap();
        assert_eq!(managed.entries.len(), 2 + others);
        let owned = |operation: Operation| {
            let mut entries = managed.entries.iter().filter(|entry| entry.id.manager == "m");
            entries.find(|entry| entry.id.operation == operation).unwrap().fields().to_json()
        };
        assert_eq!(owned(Operation::Update), r#"{"f:b":{}}"#);
        assert_eq!(owned(Operation::Apply), r#"{"f:d":{}}"#, "regardless of the version");
    }
}

#[test]
fn single_empty_entry_resets_managed_fields() {
    for (sent, expected) in [
        (json!([]), false),
        (json!([{}]), true),
        (json!([{"manager": "", "time": null}]), true),
        (json!([{}, {}]), false),
        (json!([{"manager": "m"}]), false),
        (json!([{"fieldsV1": {}}]), false),
        (json!(null), false),
        (json!({}), false),
    ] {
        assert_eq!(is_reset(Some(&sent)), expected, "{sent}");
    }
    assert!(!is_reset(None));
}
