//! The directives of a patch: their names, and how they are taken out of it.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::merge_objects::Mode;
use crate::patch::describe::quote;
use crate::patch::error::PatchError;

/// Says what to do with the object it stands in.
pub(super) const PATCH: &str = "$patch";
/// Takes the object away.
pub(super) const DELETE: &str = "delete";
/// Takes the patch for the whole object; in an item, for the whole list.
pub(super) const REPLACE: &str = "replace";
/// The default, which need not and cannot be said.
pub(super) const MERGE: &str = "merge";
/// Names all fields that remain.
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
/// Followed by `/` and the name of a list: scalars to take out of it.
pub(super) const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
/// Followed by `/` and the name of a list: its items in order.
pub(super) const SET_ELEMENT_ORDER: &str = "$setElementOrder";

/// The name of the field that a directive is about.
pub(super) fn field_of<'k>(key: &'k str, directive: &str) -> Option<&'k str> {
    key.strip_prefix(directive)?.strip_prefix('/')
}

/// The key of a directive about a field.
pub(super) fn key_for(directive: &str, field: &str) -> String {
    format!("{directive}/{field}")
}

/// Whether an item of a list is there to delete another.
pub(super) fn is_deletion(item: &Value) -> bool {
    item.get(PATCH).is_some_and(|directive| directive == DELETE)
}

/// Whether an item of a list stands for something other than itself.
pub(super) fn is_directive(item: &Value) -> bool {
    item.get(PATCH).is_some()
}

/// The whole object, as a patch with `$patch` in it says.
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

/// Does what `$retainKeys` says, and takes it out of the patch.
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

/// Keeps the directive in what becomes one patch of two.
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

/// A value of a patch where there is nothing to merge it with, or none if it is a directive.
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

/// Takes away fields that are null, in lists too; null items stay.
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
