//! Carries out `$setElementOrder`, together with the list that it orders.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::directives::{self, SET_ELEMENT_ORDER, is_deletion, is_directive};
use super::merge_lists::{ItemKind, Order, Part, arrange, identity, item_kind, merge_lists};
use super::merge_objects::Mode;
use super::patch_meta::{FieldMeta, PatchMeta};
use crate::patch::error::PatchError;

/// Merges and orders each list for which the patch has an order, and takes both out of it.
pub(super) fn carry_out(
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

/// Keeps the order in what becomes one patch of two.
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

/// The merged list in its order, or none if neither side has one.
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
        Ok(ItemKind::Object) => remembered_order(before, patch, key)?,
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

/// Refuses an order of objects with anything else in it.
fn check_order_of_objects(order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    match order.iter().position(|item| key.is_some() && !item.is_object()) {
        Some(index) => Err(PatchError::OrderOfNoObject { index }),
        None => Ok(()),
    }
}

/// The places of items in the object, as kube-apiserver remembers them once the patch is
/// merged: objects that are added have taken the places at the end that deleted ones left.
fn remembered_order<'k>(
    items: &[Value],
    changes: &[Value],
    key: Option<&'k str>,
) -> Result<Order<'k>, PatchError> {
    let mut deleted = HashSet::new();
    for deletion in changes.iter().filter(|change| is_deletion(change)) {
        deleted.insert(identity(deletion, key)?);
    }
    let mut remembered = Vec::with_capacity(items.len());
    let mut known = HashSet::new();
    for item in items {
        let identity = identity(item, key)?;
        if !deleted.contains(identity) {
            known.insert(identity);
            remembered.push(identity);
        }
    }
    let is_replaced = changes.iter().any(|change| is_directive(change) && !is_deletion(change));
    for change in changes.iter().filter(|change| !is_replaced && !is_directive(change)) {
        let identity = identity(change, key)?;
        if known.insert(identity) && remembered.len() < items.len() {
            remembered.push(identity);
        }
    }
    Ok(Order::of_identities(remembered, key))
}

fn without_directives(items: Vec<Value>) -> Vec<Value> {
    items.into_iter().filter_map(directives::without_directives).collect()
}

/// Refuses an order that lacks items of the patch, or has them in another order than it.
fn check_order(changes: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if order.is_empty() || changes.is_empty() {
        return Ok(());
    }
    let mut order_left = order.iter();
    for change in changes {
        if key.is_some() && is_deletion(change) {
            continue;
        }
        // Other directives are in nobody's order, but not after all that is.
        if is_directive(change) && order_left.len() > 0 {
            continue;
        }
        if is_directive(change) {
            return Err(PatchError::order_mismatch(changes, order));
        }
        let wanted = identity(change, key)?;
        loop {
            let Some(next) = order_left.next() else {
                return Err(PatchError::order_mismatch(changes, order));
            };
            if identity(next, key)? == wanted {
                break;
            }
        }
    }
    Ok(())
}
