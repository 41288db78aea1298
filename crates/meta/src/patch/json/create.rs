//! Creation of a JSON patch from two documents.

use serde_json::{Map, Value, json};

use crate::patch::error::PatchError;
use crate::patch::limits::check_depth;

/// Creates a JSON patch that changes `original` to `modified`, as a request body.
///
/// Lists are compared index by index, so inserting an item rewrites all items after it.
///
/// # Errors
/// If a document is nested too deeply.
pub fn create_patch(original: &Value, modified: &Value) -> Result<Value, PatchError> {
    check_depth(original)?;
    check_depth(modified)?;
    let mut operations = Vec::new();
    compare(&mut String::new(), original, modified, &mut operations);
    Ok(Value::Array(operations))
}

fn compare(path: &mut String, original: &Value, modified: &Value, operations: &mut Vec<Value>) {
    match (original, modified) {
        (Value::Object(original), Value::Object(modified)) => {
            compare_objects(path, original, modified, operations);
        }
        (Value::Array(original), Value::Array(modified)) => {
            compare_lists(path, original, modified, operations)
        }
        _ if original == modified => {}
        _ => operations.push(json!({"op": "replace", "path": path, "value": modified})),
    }
}

fn compare_objects(
    path: &mut String,
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    operations: &mut Vec<Value>,
) {
    for name in original.keys().filter(|name| !modified.contains_key(*name)) {
        below(path, name, |path| operations.push(json!({"op": "remove", "path": path})));
    }
    for (name, value) in modified {
        below(path, name, |path| match original.get(name) {
            Some(before) => compare(path, before, value, operations),
            None => operations.push(json!({"op": "add", "path": path, "value": value})),
        });
    }
}

fn compare_lists(path: &mut String, original: &[Value], modified: &[Value], operations: &mut Vec<Value>) {
    for (index, (before, after)) in original.iter().zip(modified).enumerate() {
        below(path, &index.to_string(), |path| compare(path, before, after, operations));
    }
    // Remove from the end, so that the remaining indices stay valid.
    for index in (modified.len()..original.len()).rev() {
        below(path, &index.to_string(), |path| operations.push(json!({"op": "remove", "path": path})));
    }
    for value in modified.iter().skip(original.len()) {
        below(path, "-", |path| operations.push(json!({"op": "add", "path": path, "value": value})));
    }
}

/// Calls `then` with the path extended by one element.
fn below(path: &mut String, part: &str, then: impl FnOnce(&mut String)) {
    let len = path.len();
    path.push('/');
    path.push_str(&part.replace('~', "~0").replace('/', "~1"));
    then(path);
    path.truncate(len);
}
