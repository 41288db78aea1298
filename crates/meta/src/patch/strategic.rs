//! Strategic merge patches: partial objects, merged by what the schema says of their lists.
//!
//! Lists that are declared so are merged item by item, told apart by a key or, for scalars,
//! by value; other lists are replaced. Directives among the fields say what a partial object
//! cannot: `$patch` replaces or deletes, `$deleteFromPrimitiveList/<field>` takes scalars out
//! of a list, `$setElementOrder/<field>` orders one and `$retainKeys` drops all other fields.

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

/// What to do when a field was changed in one way and is to be changed in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Change it as the patch says.
    Overwrite,
    /// Make no patch.
    Refuse,
}

/// The object after a strategic merge patch.
///
/// # Errors
/// If something in the patch has no meaning there, or something is nested too deep.
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

/// A strategic merge patch that makes `modified` of `original`; nulls in `modified` are lost
/// by it, and so are repeated items of merged lists.
///
/// # Errors
/// If one of them is no object, does not fit its schema, or is nested too deep.
pub fn create_two_way_merge_patch(
    meta: PatchMeta<'_>,
    original: &Value,
    modified: &Value,
) -> Result<Value, PatchError> {
    let scope = Scope { changes: true, deletions: true, element_order: true };
    let (original, modified) = (checked_fields(original)?, checked_fields(modified)?);
    difference::of_objects(meta, original, modified, scope, false).map(Value::Object)
}

/// A strategic merge patch for an object that others may change too, as `kubectl apply`
/// makes it: it sets what `modified` has and `current` has not, and takes away what
/// `original`, the last applied one, had and `modified` has not.
///
/// # Errors
/// If one of them is no object, does not fit its schema, or is nested too deep; and if
/// conflicts are to be refused and there is one.
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
        conflicts::refuse(meta, &patch, &changed)?;
    }
    Ok(patch)
}

fn checked_fields(value: &Value) -> Result<&Map<String, Value>, PatchError> {
    check_depth(value)?;
    value.as_object().ok_or(PatchError::InvalidDocument)
}
