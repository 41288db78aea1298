//! JSON Merge Patch (RFC 7396): a partial object, in which null removes a field.
//!
//! One deviation from the RFC, as in kube-apiserver: in a list that a patch sets, null fields are
//! removed from the items too, unless the list replaces an object.

use serde_json::{Map, Value};

use super::error::PatchError;
use super::limits::check_depth;

/// Applies a merge patch to an object.
///
/// # Errors
/// If the patch is neither an object nor a list, or a value is nested too deeply.
pub fn apply(object: Value, patch: Value) -> Result<Value, PatchError> {
    check_depth(&object)?;
    check_depth(&patch)?;
    match (object, patch) {
        (Value::Object(fields), Value::Object(patch)) => Ok(Value::Object(merge_fields(fields, patch))),
        (_, patch @ (Value::Object(_) | Value::Array(_))) => Ok(without_nulls(patch)),
        _ => Err(PatchError::InvalidMergePatch),
    }
}

/// Creates a merge patch that changes `original` to `modified`; it cannot express nulls in
/// `modified`.
///
/// # Errors
/// If a value is not an object, or nested too deeply.
pub fn create_merge_patch(original: &Value, modified: &Value) -> Result<Value, PatchError> {
    Ok(Value::Object(difference(checked_fields(original)?, checked_fields(modified)?)))
}

/// Creates a merge patch for an object that other clients change too, as `kubectl apply` does for
/// custom resources: it sets fields of `modified` that `current` lacks, and removes fields that
/// `original`, the last applied configuration, has and `modified` lacks.
///
/// # Errors
/// If a value is not an object, or nested too deeply.
pub fn create_three_way_merge_patch(
    original: &Value,
    modified: &Value,
    current: &Value,
) -> Result<Value, PatchError> {
    let modified = checked_fields(modified)?;
    let mut changes = difference(checked_fields(current)?, modified);
    retain_values(&mut changes);
    let mut deletions = difference(checked_fields(original)?, modified);
    retain_nulls(&mut deletions);
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

/// Removes null fields, including those in lists; null items stay.
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

/// Retains only the fields that a patch sets. An object that is empty from the start counts as a
/// value.
fn retain_values(patch: &mut Map<String, Value>) {
    patch.retain(|_, change| match change {
        Value::Null => false,
        Value::Object(changes) if changes.is_empty() => true,
        Value::Object(changes) => {
            retain_values(changes);
            !changes.is_empty()
        }
        _ => true,
    });
}

/// Retains only the fields that a patch removes.
fn retain_nulls(patch: &mut Map<String, Value>) {
    patch.retain(|_, change| match change {
        Value::Null => true,
        Value::Object(changes) => {
            retain_nulls(changes);
            !changes.is_empty()
        }
        _ => false,
    });
}
