//! Creation of the part of a patch that changes a merged list.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::difference::{Scope, of_objects};
use super::directives::{DELETE, PATCH};
use super::merge_lists::{ItemKind, identity, item_kind};
use super::patch_meta::FieldMeta;
use crate::patch::describe::quote;
use crate::patch::error::PatchError;

/// The part of a patch that changes a list.
#[derive(Debug, Default)]
pub(super) struct ListDifference {
    /// Items to add or change and, for objects, to delete.
    pub(super) items: Vec<Value>,
    /// Scalars to delete.
    pub(super) deletions: Vec<Value>,
    /// The order of the items afterwards.
    pub(super) order: Vec<Value>,
}

/// Computes the difference of two merged lists.
pub(super) fn of_lists(
    field: FieldMeta<'_>,
    original: &[Value],
    modified: &[Value],
    scope: Scope,
) -> Result<ListDifference, PatchError> {
    if original.is_empty() {
        let items = if scope.changes { modified.to_vec() } else { Vec::new() };
        return Ok(ListDifference { items, ..ListDifference::default() });
    }
    match item_kind(original, modified)? {
        ItemKind::Object => of_object_lists(field, original, modified, scope),
        ItemKind::Scalar => Ok(of_scalar_lists(original, modified, scope)),
    }
}

fn of_scalar_lists(original: &[Value], modified: &[Value], scope: Scope) -> ListDifference {
    let mut difference = ListDifference::default();
    if scope.changes {
        difference.items = missing_from(original, modified);
    }
    if scope.deletions {
        difference.deletions = missing_from(modified, original);
        difference.deletions.sort_by_cached_key(quote);
    }
    let is_ordered = scope.changes && original != modified || !difference.deletions.is_empty();
    if scope.element_order && is_ordered {
        difference.order = modified.to_vec();
    }
    difference
}

/// Returns the distinct values that only `other` has.
fn missing_from(list: &[Value], other: &[Value]) -> Vec<Value> {
    let mut seen: HashSet<&Value> = list.iter().collect();
    other.iter().filter(|item| seen.insert(*item)).cloned().collect()
}

fn of_object_lists(
    field: FieldMeta<'_>,
    original: &[Value],
    modified: &[Value],
    scope: Scope,
) -> Result<ListDifference, PatchError> {
    let key = field.merge_key().ok_or(PatchError::NoMergeKeyDeclared)?;
    let (before, after) = (identities(original, key)?, identities(modified, key)?);
    let mut items = changed_items(field, key, original, modified, scope)?;
    if scope.deletions {
        let remaining: HashSet<&Value> = after.iter().copied().collect();
        let mut deleted: Vec<&Value> =
            before.iter().copied().filter(|identity| !remaining.contains(identity)).collect();
        deleted.sort_by_cached_key(|identity| quote(identity));
        items.extend(deleted.into_iter().map(|identity| json!({key: identity, PATCH: DELETE})));
    }
    let is_ordered = !items.is_empty() || scope.changes && before != after;
    let order = if scope.element_order && is_ordered {
        after.into_iter().map(|identity| json!({key: identity})).collect()
    } else {
        Vec::new()
    };
    Ok(ListDifference { items, deletions: Vec::new(), order })
}

/// Returns new items, and patches of existing ones, in the order of `modified`.
fn changed_items(
    field: FieldMeta<'_>,
    key: &str,
    original: &[Value],
    modified: &[Value],
    scope: Scope,
) -> Result<Vec<Value>, PatchError> {
    let mut before: HashMap<&Value, &Map<String, Value>> = HashMap::with_capacity(original.len());
    for item in original {
        if let Value::Object(fields) = item {
            before.entry(identity(item, Some(key))?).or_insert(fields);
        }
    }
    let mut items = Vec::new();
    for item in modified {
        let identity = identity(item, Some(key))?;
        match (before.get(identity), item) {
            (Some(before), Value::Object(after)) => {
                let mut patch = of_objects(field.meta, before, after, scope, field.strategy.retain_keys)?;
                if !patch.is_empty() {
                    patch.insert(key.to_owned(), identity.clone());
                    items.push(Value::Object(patch));
                }
            }
            _ if scope.changes => items.push(item.clone()),
            _ => {}
        }
    }
    Ok(items)
}

fn identities<'i>(items: &'i [Value], key: &str) -> Result<Vec<&'i Value>, PatchError> {
    items.iter().map(|item| identity(item, Some(key))).collect()
}
