//! Detection of conflicts between two patches.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::directives::{PATCH, RETAIN_KEYS};
use super::merge_lists::{ItemKind, identity, item_kind};
use super::patch_meta::{FieldMeta, PatchMeta};
use crate::patch::error::PatchError;

/// Fails if a patch changes a field that `changes` sets to a different value.
pub(super) fn check(meta: PatchMeta<'_>, patch: &Value, changes: &Value) -> Result<(), PatchError> {
    if have_conflict(meta, patch, changes)? {
        return Err(PatchError::Conflict { patch: patch.to_string(), changes: changes.to_string() });
    }
    Ok(())
}

/// Compares two values that are not merged lists.
fn have_conflict(meta: PatchMeta<'_>, left: &Value, right: &Value) -> Result<bool, PatchError> {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            // A directive applies to the whole object.
            Ok(left.get(PATCH) != right.get(PATCH) || fields_have_conflict(meta, left, right)?)
        }
        (Value::Array(left), Value::Array(right)) => plain_lists_have_conflict(meta, left, right),
        _ => Ok(left != right),
    }
}

fn fields_have_conflict(
    meta: PatchMeta<'_>,
    left: &Map<String, Value>,
    right: &Map<String, Value>,
) -> Result<bool, PatchError> {
    for (name, left) in left {
        let Some(right) = right.get(name) else { continue };
        if name == PATCH || name == RETAIN_KEYS {
            continue;
        }
        let conflict = match (left, right) {
            (Value::Object(_), Value::Object(_)) => {
                have_conflict(meta.object_field(name)?.meta, left, right)?
            }
            // `$deleteFromPrimitiveList` and other directives beside a field never conflict.
            (Value::Array(_), Value::Array(_)) if name.starts_with('$') => false,
            (Value::Array(left), Value::Array(right)) => {
                let field = meta.list_field(name)?;
                if field.strategy.merge {
                    merged_lists_have_conflict(field, left, right)?
                } else {
                    plain_lists_have_conflict(field.meta, left, right)?
                }
            }
            _ => left != right,
        };
        if conflict {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Scalars in merged lists never conflict; objects with equal keys may.
fn merged_lists_have_conflict(
    field: FieldMeta<'_>,
    left: &[Value],
    right: &[Value],
) -> Result<bool, PatchError> {
    if item_kind(left, right)? == ItemKind::Scalar {
        return Ok(false);
    }
    let key = field.merge_key().ok_or(PatchError::NoMergeKeyDeclared)?;
    let mut others = HashMap::with_capacity(right.len());
    for item in right {
        others.insert(identity(item, Some(key))?, item);
    }
    for item in left {
        let Some(other) = others.get(identity(item, Some(key))?) else { continue };
        if have_conflict(field.meta, item, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Compares replaced lists item by item; for scalars the order is ignored.
fn plain_lists_have_conflict(
    meta: PatchMeta<'_>,
    left: &[Value],
    right: &[Value],
) -> Result<bool, PatchError> {
    if left.len() != right.len() {
        return Ok(true);
    }
    if left.is_empty() {
        return Ok(false);
    }
    if item_kind(left, right)? == ItemKind::Scalar {
        return Ok(sorted_texts(left) != sorted_texts(right));
    }
    for (left, right) in left.iter().zip(right) {
        if have_conflict(meta, left, right)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn sorted_texts(items: &[Value]) -> Vec<String> {
    let mut texts: Vec<String> = items.iter().map(Value::to_string).collect();
    texts.sort_unstable();
    texts.dedup();
    texts
}
