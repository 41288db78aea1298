//! Builders for samples: an object from its fields, and variants of it.

use serde_json::{Value, json};

/// A cluster-scoped object named `sample`.
pub(crate) fn cluster(api_version: &str, kind: &str, fields: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "sample"}});
    if let (Value::Object(object), Value::Object(fields)) = (&mut object, fields) {
        object.extend(fields);
    }
    object
}

/// A namespaced object named `sample`.
pub(crate) fn namespaced(api_version: &str, kind: &str, fields: Value) -> Value {
    with(&cluster(api_version, kind, fields), "/metadata/namespace", json!("default"))
}

/// A copy of the object with one field, given by its JSON pointer, set or (with null) removed. The parent of the
/// field must exist.
pub(crate) fn with(object: &Value, pointer: &str, value: Value) -> Value {
    let mut object = object.clone();
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer starts with a slash");
    let name = name.replace("~1", "/");
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) if value.is_null() => drop(fields.remove(&name)),
        Some(Value::Object(fields)) => drop(fields.insert(name, value)),
        Some(Value::Array(items)) => items[name.parse::<usize>().expect("an index")] = value,
        _ => panic!("nothing holds {pointer}"),
    }
    object
}
