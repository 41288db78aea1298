//! Merge of a patch into an object, or into another patch.

use serde_json::{Map, Value};

use super::directives::{self, DELETE_FROM_LIST, PATCH};
use super::element_order;
use super::merge_lists::{Part, merge_lists};
use super::patch_meta::PatchMeta;
use crate::patch::describe::same_type;
use crate::patch::error::PatchError;

/// The target of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// An object: directives and nulls take effect.
    Apply,
    /// An earlier patch: directives and nulls are retained.
    Combine,
}

/// Merges a patch into an object.
pub(super) fn merge_objects(
    meta: PatchMeta<'_>,
    mut object: Map<String, Value>,
    mut patch: Map<String, Value>,
    mode: Mode,
) -> Result<Map<String, Value>, PatchError> {
    if patch.contains_key(PATCH) {
        return directives::whole_object(patch);
    }
    directives::retain_keys(&mut object, &mut patch, mode)?;
    element_order::apply(meta, &mut object, &mut patch, mode)?;
    // Deletions from lists come last, as they do when there is an element order.
    let (deletions, fields): (Vec<_>, Vec<_>) =
        patch.into_iter().partition(|(key, _)| key.starts_with(DELETE_FROM_LIST));
    for (name, change) in fields {
        merge_field(meta, &mut object, name, change, mode)?;
    }
    for (key, items) in deletions {
        if mode == Mode::Combine {
            object.insert(key, items);
            continue;
        }
        let field = directives::field_of(&key, DELETE_FROM_LIST).ok_or(PatchError::InvalidDeletionList)?;
        delete_from_field(meta, &mut object, field, items)?;
    }
    Ok(object)
}

fn merge_field(
    meta: PatchMeta<'_>,
    object: &mut Map<String, Value>,
    name: String,
    change: Value,
    mode: Mode,
) -> Result<(), PatchError> {
    if change.is_null() {
        object.remove(&name);
        if mode == Mode::Combine {
            object.insert(name, Value::Null);
        }
        return Ok(());
    }
    match object.get_mut(&name) {
        Some(current) if same_type(current, &change) => {
            *current = merge_values(meta, &name, current.take(), change, Part::Items, mode)?;
        }
        _ => set_field(object, name, change, mode),
    }
    Ok(())
}

/// Applies `$deleteFromPrimitiveList`.
///
/// It is meant for lists of scalars. For other fields it behaves as in kube-apiserver: like a
/// change to the field, which is never created.
fn delete_from_field(
    meta: PatchMeta<'_>,
    object: &mut Map<String, Value>,
    name: &str,
    items: Value,
) -> Result<(), PatchError> {
    if items.is_null() {
        object.remove(name);
        return Ok(());
    }
    match object.get_mut(name) {
        Some(current) if same_type(current, &items) => {
            *current = merge_values(meta, name, current.take(), items, Part::Deletions, Mode::Apply)?;
        }
        _ => {}
    }
    Ok(())
}

/// Merges two values of the same type.
fn merge_values(
    meta: PatchMeta<'_>,
    name: &str,
    current: Value,
    change: Value,
    part: Part,
    mode: Mode,
) -> Result<Value, PatchError> {
    match (current, change) {
        (Value::Object(object), Value::Object(patch)) => {
            let field = meta.object_field(name)?;
            if field.strategy.replace {
                return Ok(Value::Object(patch));
            }
            merge_objects(field.meta, object, patch, mode).map(Value::Object)
        }
        (Value::Array(items), Value::Array(patch)) => {
            let field = meta.list_field(name)?;
            merge_lists(field, items, patch, part, mode).map(Value::Array)
        }
        (_, scalar) => Ok(scalar),
    }
}

/// Sets a field that has no value to merge with.
fn set_field(object: &mut Map<String, Value>, name: String, mut value: Value, mode: Mode) {
    if mode == Mode::Apply {
        directives::drop_nulls(&mut value);
    }
    match directives::without_directives(value) {
        Some(value) => object.insert(name, value),
        None => object.remove(&name),
    };
}
