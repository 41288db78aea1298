//! Strategic merge patch: a partial object, merged according to the schema of its lists.
//!
//! A list with patch strategy `merge` is merged item by item, identified by the merge key or, for
//! scalars, by value; other lists are replaced. Directives express what a partial object cannot:
//! `$patch` replaces or deletes, `$deleteFromPrimitiveList/<field>` removes scalars from a list,
//! `$setElementOrder/<field>` orders one and `$retainKeys` drops all other fields.

mod conflicts;
mod difference;
mod difference_of_lists;
mod directives;
mod element_order;
mod merge_lists;
mod merge_objects;
mod patch_meta;

use serde_json::{Map, Value};

use super::error::PatchError;
use super::limits::check_depth;
use difference::Scope;
use merge_objects::{Mode, merge_objects};

pub use patch_meta::PatchMeta;

/// Handling of fields that another client has changed to a different value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Set the value of the patch.
    Overwrite,
    /// Fail with a conflict.
    Refuse,
}

/// Applies a strategic merge patch to an object.
///
/// # Errors
/// If the patch contains an invalid directive or value, or a value is nested too deeply.
pub fn apply(meta: PatchMeta<'_>, object: Value, patch: Value) -> Result<Value, PatchError> {
    check_depth(&object)?;
    check_depth(&patch)?;
    let Value::Object(object) = object else { return Err(PatchError::InvalidDocument) };
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => Map::new(),
        other => {
            return Err(PatchError::cannot_unmarshal(&other, "value of type map[string]interface {}"));
        }
    };
    merge_objects(meta, object, patch, Mode::Apply).map(Value::Object)
}

/// Creates a strategic merge patch that changes `original` to `modified`; it cannot express nulls
/// in `modified`, nor duplicate items of merged lists.
///
/// # Errors
/// If a value is not an object, does not match its schema, or is nested too deeply.
pub fn create_two_way_merge_patch(
    meta: PatchMeta<'_>,
    original: &Value,
    modified: &Value,
) -> Result<Value, PatchError> {
    let scope = Scope { changes: true, deletions: true, element_order: true };
    let (original, modified) = (checked_fields(original)?, checked_fields(modified)?);
    difference::of_objects(meta, original, modified, scope, false).map(Value::Object)
}

/// Creates a strategic merge patch for an object that other clients change too, as `kubectl apply`
/// does: it sets fields of `modified` that `current` lacks, and removes fields that `original`, the
/// last applied configuration, has and `modified` lacks.
///
/// # Errors
/// If a value is not an object, does not match its schema, or is nested too deeply; and with
/// [`OnConflict::Refuse`] if there is a conflict.
pub fn create_three_way_merge_patch(
    meta: PatchMeta<'_>,
    original: &Value,
    modified: &Value,
    current: &Value,
    on_conflict: OnConflict,
) -> Result<Value, PatchError> {
    let original = checked_fields(original)?;
    let modified = checked_fields(modified)?;
    let current = checked_fields(current)?;
    let changes = Scope { changes: true, deletions: false, element_order: true };
    let changes = difference::of_objects(meta, current, modified, changes, false)?;
    let deletions = Scope { changes: false, deletions: true, element_order: true };
    let deletions = difference::of_objects(meta, original, modified, deletions, false)?;
    let patch = Value::Object(merge_objects(meta, deletions, changes, Mode::Combine)?);
    if on_conflict == OnConflict::Refuse {
        let changed = Scope { changes: true, deletions: true, element_order: false };
        let changed = Value::Object(difference::of_objects(meta, original, current, changed, false)?);
        conflicts::check(meta, &patch, &changed)?;
    }
    Ok(patch)
}

fn checked_fields(value: &Value) -> Result<&Map<String, Value>, PatchError> {
    check_depth(value)?;
    value.as_object().ok_or(PatchError::InvalidDocument)
}
