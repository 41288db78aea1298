//! JSON merge patches (RFC 7396): a partial object, where null takes a field away.
//!
//! One thing is as in kube-apiserver and not as in the RFC: where a patch puts a list, nulls
//! go from the objects in it too, unless the list takes the place of an object.

use serde_json::{Map, Value};

use super::error::PatchError;
use super::limits::check_depth;

/// The object after a merge patch.
///
/// # Errors
/// If the patch is neither an object nor a list, or something is nested too deep.
pub fn apply(object: Value, patch: Value) -> Result<Value, PatchError> {
    check_depth(&object)?;
    check_depth(&patch)?;
    match (object, patch) {
        (Value::Object(fields), Value::Object(patch)) => Ok(Value::Object(merge_fields(fields, patch))),
        (_, patch @ (Value::Object(_) | Value::Array(_))) => Ok(without_nulls(patch)),
        _ => Err(PatchError::InvalidMergePatch),
    }
}

/// A merge patch that makes `modified` of `original`; nulls in `modified` are lost by it.
///
/// # Errors
/// If one of them is no object, or nested too deep.
pub fn create_merge_patch(original: &Value, modified: &Value) -> Result<Value, PatchError> {
    Ok(Value::Object(difference(checked_fields(original)?, checked_fields(modified)?)))
}

/// A merge patch for an object that others may change too, as `kubectl apply` makes for
/// custom resources: it sets what `modified` has and `current` has not, and takes away what
/// `original`, the last applied one, had and `modified` has not.
///
/// # Errors
/// If one of them is no object, or nested too deep.
pub fn create_three_way_merge_patch(
    original: &Value,
    modified: &Value,
    current: &Value,
) -> Result<Value, PatchError> {
    let modified = checked_fields(modified)?;
    let mut changes = difference(checked_fields(current)?, modified);
    keep_values(&mut changes);
    let mut deletions = difference(checked_fields(original)?, modified);
    keep_nulls(&mut deletions);
    Ok(Value::Object(merge_fields(deletions, changes)))
}

fn checked_fields(value: &Value) -> Result<&Map<String, Value>, PatchError> {
    check_depth(value)?;
    value.as_object().ok_or(PatchError::InvalidDocument)
}

fn merge_fields(mut fields: Map<String, Value>, patch: Map<String, Value>) -> Map<String, Value> {
    for (name, change) in patch {
        if change.is_null() {
            fields.remove(&name);
            continue;
        }
        let merged = match (fields.get_mut(&name).map(Value::take), change) {
            (Some(Value::Object(fields)), Value::Object(change)) => {
                Value::Object(merge_fields(fields, change))
            }
            (Some(Value::Object(_)), change) => change,
            (_, change) => without_nulls(change),
        };
        fields.insert(name, merged);
    }
    fields
}

/// A value without fields that are null, in lists too; null items stay.
fn without_nulls(mut value: Value) -> Value {
    drop_nulls(&mut value);
    value
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn difference(original: &Map<String, Value>, modified: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (name, after) in modified {
        match (original.get(name), after) {
            (Some(Value::Object(before)), Value::Object(after)) => {
                let changes = difference(before, after);
                if !changes.is_empty() {
                    patch.insert(name.clone(), Value::Object(changes));
                }
            }
            (Some(before), after) if before == after => {}
            _ => {
                patch.insert(name.clone(), after.clone());
            }
        }
    }
    for name in original.keys().filter(|name| !modified.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    patch
}

/// Leaves only what a patch sets. An object that is empty from the start is a value.
fn keep_values(patch: &mut Map<String, Value>) {
    patch.retain(|_, change| match change {
        Value::Null => false,
        Value::Object(changes) if changes.is_empty() => true,
        Value::Object(changes) => {
            keep_values(changes);
            !changes.is_empty()
        }
        _ => true,
    });
}

/// Leaves only what a patch takes away.
fn keep_nulls(patch: &mut Map<String, Value>) {
    patch.retain(|_, change| match change {
        Value::Null => true,
        Value::Object(changes) => {
            keep_nulls(changes);
            !changes.is_empty()
        }
        _ => false,
    });
}
