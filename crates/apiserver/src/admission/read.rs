//! Accessors for fields of objects.

use coracle_registry::view;
use serde_json::Value;

/// Returns the field at a path; creates it if it is absent.
pub(super) fn entry<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut Value {
    path.iter().fold(object, |value, name| {
        if !value.is_object() {
            *value = Value::Object(serde_json::Map::new());
        }
        &mut value[*name]
    })
}

/// Appends to the list at a path.
pub(super) fn push(object: &mut Value, path: &[&str], item: Value) {
    match entry(object, path) {
        Value::Array(items) => items.push(item),
        other => *other = Value::Array(vec![item]),
    }
}

/// Returns the items of the list at a path, for modification.
pub(super) fn items_mut<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut [Value] {
    if view::items(object, path).is_empty() {
        return &mut [];
    }
    entry(object, path).as_array_mut().map_or(&mut [], Vec::as_mut_slice)
}
