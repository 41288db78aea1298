//! Directives of strategic merge patches.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::merge_objects::Mode;
use crate::patch::describe::quote;
use crate::patch::error::PatchError;

/// Directive for the object that contains it.
pub(super) const PATCH: &str = "$patch";
/// Deletes the object.
pub(super) const DELETE: &str = "delete";
/// Replaces the whole object with the patch; in an item, the whole list.
pub(super) const REPLACE: &str = "replace";
/// The default, which is not accepted explicitly.
pub(super) const MERGE: &str = "merge";
/// Lists all fields that remain.
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
/// Followed by `/` and the name of a list: scalars to delete from it.
pub(super) const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
/// Followed by `/` and the name of a list: its items in order.
pub(super) const SET_ELEMENT_ORDER: &str = "$setElementOrder";

/// Returns the field name in the key of a directive.
pub(super) fn field_of<'k>(key: &'k str, directive: &str) -> Option<&'k str> {
    key.strip_prefix(directive)?.strip_prefix('/')
}

/// Returns the key of a directive for a field.
pub(super) fn key_for(directive: &str, field: &str) -> String {
    format!("{directive}/{field}")
}

/// Returns true if the item of a list deletes another item.
pub(super) fn is_deletion(item: &Value) -> bool {
    item.get(PATCH).is_some_and(|directive| directive == DELETE)
}

/// Returns true if the item of a list is a directive.
pub(super) fn is_directive(item: &Value) -> bool {
    item.get(PATCH).is_some()
}

/// Returns the new object for a patch that contains `$patch`.
pub(super) fn whole_object(mut patch: Map<String, Value>) -> Result<Map<String, Value>, PatchError> {
    match patch.get(PATCH).and_then(Value::as_str) {
        Some(REPLACE) => {
            patch.remove(PATCH);
            Ok(patch)
        }
        Some(DELETE) => Ok(Map::new()),
        _ => {
            let patch = Value::Object(patch);
            Err(PatchError::unknown_directive(&patch[PATCH], &patch))
        }
    }
}

/// Applies `$retainKeys` and removes it from the patch.
pub(super) fn retain_keys(
    object: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    mode: Mode,
) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    if mode == Mode::Combine {
        return combine_retain_keys(object, keys);
    }
    let keys = keys.as_array().ok_or(PatchError::InvalidRetainKeys)?;
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let is_contradicted = patch.iter().any(|(name, value)| {
        let about_list = name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ELEMENT_ORDER);
        !value.is_null() && !about_list && !keys.contains(name.as_str())
    });
    if is_contradicted {
        return Err(PatchError::InvalidRetainKeys);
    }
    object.retain(|name, _| keys.contains(name.as_str()));
    Ok(())
}

/// Carries the directive over when two patches are combined.
fn combine_retain_keys(object: &mut Map<String, Value>, keys: Value) -> Result<(), PatchError> {
    match object.get(RETAIN_KEYS) {
        Some(others) if *others == keys => Ok(()),
        Some(others) => Err(PatchError::RetainKeysDiffer { left: quote(others), right: quote(&keys) }),
        None => {
            object.insert(RETAIN_KEYS.to_owned(), keys);
            Ok(())
        }
    }
}

/// Returns a value of the patch that is set without merging; `None` if it is a directive.
pub(super) fn without_directives(mut value: Value) -> Option<Value> {
    if is_directive(&value) {
        return None;
    }
    drop_directives(&mut value);
    Some(value)
}

fn drop_directives(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !is_directive(field));
            fields.values_mut().for_each(drop_directives);
        }
        Value::Array(items) => {
            items.retain(|item| !is_directive(item));
            items.iter_mut().for_each(drop_directives);
        }
        _ => {}
    }
}

/// Removes null fields, including those in lists; null items stay.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
