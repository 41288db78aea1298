//! Application of `$setElementOrder`, together with the list that it orders.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::directives::{self, SET_ELEMENT_ORDER, is_deletion, is_directive};
use super::merge_lists::{ItemKind, Order, Part, arrange, identity, item_kind, merge_lists};
use super::merge_objects::Mode;
use super::patch_meta::{FieldMeta, PatchMeta};
use crate::patch::error::PatchError;

/// Merges and orders each list with a `$setElementOrder` directive, and removes list and directive
/// from the patch.
pub(super) fn apply(
    meta: PatchMeta<'_>,
    object: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    mode: Mode,
) -> Result<(), PatchError> {
    let keys: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
    for key in keys {
        let Some(order) = patch.remove(&key) else { continue };
        if mode == Mode::Combine {
            combine_orders(object, &key, &order)?;
        }
        let order = into_list(order)?;
        let name = directives::field_of(&key, SET_ELEMENT_ORDER).ok_or(PatchError::InvalidElementOrder)?;
        let items = object.remove(name).map(into_list).transpose()?;
        let changes = patch.remove(name).map(into_list).transpose()?;
        let field = meta.list_field(name)?;
        if let Some(ordered) = merge_in_order(field, items, changes, &order, mode)? {
            object.insert(name.to_owned(), Value::Array(ordered));
        }
    }
    Ok(())
}

/// Carries the order over when two patches are combined.
fn combine_orders(object: &mut Map<String, Value>, key: &str, order: &Value) -> Result<(), PatchError> {
    match object.get(key) {
        Some(other) if other == order => Ok(()),
        Some(_) => Err(PatchError::InvalidElementOrder),
        None => {
            object.insert(key.to_owned(), order.clone());
            Ok(())
        }
    }
}

fn into_list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(PatchError::wrong_type(&Value::Array(Vec::new()), &other)),
    }
}

/// Returns the merged and ordered list; `None` if neither side has the list.
fn merge_in_order(
    field: FieldMeta<'_>,
    items: Option<Vec<Value>>,
    changes: Option<Vec<Value>>,
    order: &[Value],
    mode: Mode,
) -> Result<Option<Vec<Value>>, PatchError> {
    let key = field.merge_key();
    let before = items.as_deref().unwrap_or_default();
    let patch = changes.as_deref().unwrap_or_default();
    check_order(patch, order, key)?;
    let kind = item_kind(before, patch);
    if kind == Ok(ItemKind::Object) && key.is_none() {
        return Err(PatchError::NoMergeKeyDeclared);
    }
    let server_order = match kind {
        Ok(ItemKind::Object) => recorded_order(before, patch, key)?,
        _ => Order::of(before, key)?,
    };
    let merged = match (items, changes) {
        (Some(items), Some(changes)) => merge_lists(field, items, changes, Part::Items, mode)?,
        (Some(items), None) => items,
        (None, Some(changes)) => without_directives(changes),
        (None, None) => return Ok(None),
    };
    kind?;
    check_order_of_objects(order, key)?;
    arrange(merged, &Order::of(order, key)?, &server_order).map(Some)
}

/// Rejects an order of objects that contains other values.
fn check_order_of_objects(order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    match order.iter().position(|item| key.is_some() && !item.is_object()) {
        Some(index) => Err(PatchError::OrderItemNotAnObject { index }),
        None => Ok(()),
    }
}

/// Returns the positions of items in the object as kube-apiserver records them after merging the
/// patch: added objects take the positions at the end that deleted ones freed.
fn recorded_order<'k>(
    items: &[Value],
    changes: &[Value],
    key: Option<&'k str>,
) -> Result<Order<'k>, PatchError> {
    let mut deleted = HashSet::new();
    for deletion in changes.iter().filter(|change| is_deletion(change)) {
        deleted.insert(identity(deletion, key)?);
    }
    let mut recorded = Vec::with_capacity(items.len());
    let mut seen = HashSet::new();
    for item in items {
        let identity = identity(item, key)?;
        if !deleted.contains(identity) {
            seen.insert(identity);
            recorded.push(identity);
        }
    }
    let is_replaced = changes.iter().any(|change| is_directive(change) && !is_deletion(change));
    for change in changes.iter().filter(|change| !is_replaced && !is_directive(change)) {
        let identity = identity(change, key)?;
        if seen.insert(identity) && recorded.len() < items.len() {
            recorded.push(identity);
        }
    }
    Ok(Order::of_identities(recorded, key))
}

fn without_directives(items: Vec<Value>) -> Vec<Value> {
    items.into_iter().filter_map(directives::without_directives).collect()
}

/// Rejects an order that lacks items of the patch, or has them in another order.
fn check_order(changes: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if order.is_empty() || changes.is_empty() {
        return Ok(());
    }
    let mut order_left = order.iter();
    for change in changes {
        if key.is_some() && is_deletion(change) {
            continue;
        }
        // Other directives are not part of the order, but must not come after its last item.
        if is_directive(change) && order_left.len() > 0 {
            continue;
        }
        if is_directive(change) {
            return Err(PatchError::order_mismatch(changes, order));
        }
        let expected = identity(change, key)?;
        loop {
            let Some(next) = order_left.next() else {
                return Err(PatchError::order_mismatch(changes, order));
            };
            if identity(next, key)? == expected {
                break;
            }
        }
    }
    Ok(())
}
