//! Merge of the lists of a patch into those of an object.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::directives::{DELETE, MERGE, PATCH, REPLACE, is_deletion};
use super::merge_objects::{Mode, merge_objects};
use super::patch_meta::FieldMeta;
use crate::patch::describe::{quote_list, same_type};
use crate::patch::error::PatchError;

/// The use of the items of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Items to add or change.
    Items,
    /// Scalars to delete.
    Deletions,
}

/// The type of the items of a merged list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Object,
    Scalar,
}

/// Merges two lists, or returns the one in the patch if the field is not declared as merged.
pub(super) fn merge_lists(
    field: FieldMeta<'_>,
    items: Vec<Value>,
    patch: Vec<Value>,
    part: Part,
    mode: Mode,
) -> Result<Vec<Value>, PatchError> {
    if part == Part::Items && !field.strategy.merge {
        return Ok(patch);
    }
    if items.is_empty() && patch.is_empty() {
        return Ok(items);
    }
    match item_kind(&items, &patch)? {
        ItemKind::Scalar if part == Part::Deletions => {
            let deleted: HashSet<Value> = patch.into_iter().collect();
            Ok(items.into_iter().filter(|item| !deleted.contains(item)).collect())
        }
        ItemKind::Scalar => {
            let server_order = Order::of(&items, field.merge_key())?;
            let patch_order = Order::of(&patch, field.merge_key())?;
            let merged = distinct(items.into_iter().chain(patch));
            arrange(merged, &patch_order, &server_order)
        }
        ItemKind::Object => {
            let key = field.merge_key().ok_or(PatchError::NoMergeKeyDeclared)?;
            let (items, patch) = apply_directives(items, patch, key)?;
            let server_order = Order::of(&items, Some(key))?;
            let patch_order = Order::of(&patch, Some(key))?;
            let merged = merge_items(field, key, items, patch, mode)?;
            arrange(merged, &patch_order, &server_order)
        }
    }
}

/// Returns the type of the items of both lists.
pub(super) fn item_kind(items: &[Value], patch: &[Value]) -> Result<ItemKind, PatchError> {
    let mut all = items.iter().chain(patch);
    let first = all.next().ok_or(PatchError::NoItems)?;
    if first.is_array() {
        return Err(PatchError::ListOfLists);
    }
    if first.is_null() || !all.all(|item| same_type(item, first)) {
        let lists = format!("[{} {}]", quote_list(items), quote_list(patch));
        return Err(PatchError::MixedItems(lists));
    }
    Ok(if first.is_object() { ItemKind::Object } else { ItemKind::Scalar })
}

/// Positions of items by identity: the merge key or, for scalars, the value.
pub(super) struct Order<'k> {
    key: Option<&'k str>,
    positions: HashMap<Value, usize>,
}

impl<'k> Order<'k> {
    /// Creates the order of the items of a list; with a key, all must be objects that have it.
    pub(super) fn of(items: &[Value], key: Option<&'k str>) -> Result<Self, PatchError> {
        let identities = items.iter().map(|item| identity(item, key)).collect::<Result<_, _>>()?;
        Ok(Self::of_identities(identities, key))
    }

    /// Creates the order of items with these identities.
    pub(super) fn of_identities(identities: Vec<&Value>, key: Option<&'k str>) -> Self {
        let mut positions = HashMap::with_capacity(identities.len());
        for (position, identity) in identities.into_iter().enumerate() {
            positions.entry(identity.clone()).or_insert(position);
        }
        Self { key, positions }
    }

    /// Returns the position of an item, if it is in the order.
    fn position(&self, item: &Value) -> Result<Option<usize>, PatchError> {
        Ok(self.positions.get(identity(item, self.key)?).copied())
    }
}

/// Returns the identity of an item: its merge key or, for scalars, the item itself.
pub(super) fn identity<'i>(item: &'i Value, key: Option<&str>) -> Result<&'i Value, PatchError> {
    let Some(key) = key else { return Ok(item) };
    let Value::Object(fields) = item else {
        return Err(PatchError::wrong_type(&Value::Object(serde_json::Map::new()), item));
    };
    fields.get(key).ok_or_else(|| PatchError::no_merge_key(item, key))
}

/// Orders merged items: those in the patch in its order, the others in the order of the object.
/// Where the two orders leave a choice, that of the object wins.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &Order<'_>,
    server_order: &Order<'_>,
) -> Result<Vec<Value>, PatchError> {
    let mut from_patch = Vec::new();
    let mut from_server = Vec::new();
    for item in merged {
        let server_position = server_order.position(&item)?;
        match patch_order.position(&item)? {
            Some(position) => from_patch.push((Some(position), server_position, item)),
            None => from_server.push((server_position, server_position, item)),
        }
    }
    let patch_items = sorted(from_patch).into_iter();
    let mut server_items = sorted(from_server).into_iter().peekable();
    let mut arranged = Vec::with_capacity(patch_items.len() + server_items.len());
    for (patch_position, item) in patch_items {
        while let Some((position, earlier)) =
            server_items.next_if(|(position, _)| is_before(*position, patch_position))
        {
            debug_assert!(position.is_some(), "only an item with a position precedes another");
            arranged.push(earlier);
        }
        arranged.push(item);
    }
    arranged.extend(server_items.map(|(_, item)| item));
    Ok(arranged)
}

fn is_before(left: Option<usize>, right: Option<usize>) -> bool {
    left.zip(right).is_some_and(|(left, right)| left < right)
}

/// Sorts items by position and returns them with their position in the object. Items without
/// position come first, in reverse, and deletions come last, as in kube-apiserver.
fn sorted(mut items: Vec<(Option<usize>, Option<usize>, Value)>) -> Vec<(Option<usize>, Value)> {
    let mut deletions = Vec::new();
    let mut positioned = Vec::with_capacity(items.len());
    let mut unpositioned = Vec::new();
    for (position, server_position, item) in items.drain(..) {
        match position {
            _ if is_deletion(&item) => deletions.push((server_position, item)),
            Some(position) => positioned.push((position, (server_position, item))),
            None => unpositioned.push((server_position, item)),
        }
    }
    positioned.sort_by_key(|(position, _)| *position);
    unpositioned.reverse();
    unpositioned.extend(positioned.into_iter().map(|(_, item)| item));
    unpositioned.extend(deletions);
    unpositioned
}

/// Removes duplicates, retaining the first of each value.
fn distinct(items: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    items.filter(|item| seen.insert(item.clone())).collect()
}

/// Applies the directives among the items of a patch, and returns the other items.
fn apply_directives(
    mut items: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut remaining = Vec::with_capacity(patch.len());
    let mut deleted = HashSet::new();
    let mut is_replaced = false;
    for item in patch {
        let Some(directive) = item.get(PATCH) else {
            remaining.push(item);
            continue;
        };
        match directive.as_str() {
            Some(DELETE) => {
                deleted.insert(identity(&item, Some(key))?.clone());
            }
            Some(REPLACE) => is_replaced = true,
            Some(MERGE) => return Err(PatchError::MergeDirectiveInList),
            _ => return Err(PatchError::unknown_directive(directive, &item)),
        }
    }
    if is_replaced {
        return Ok((remaining, Vec::new()));
    }
    items.retain(|item| item.get(key).is_none_or(|value| !deleted.contains(value)));
    Ok((items, remaining))
}

/// Merges each item of a patch into the one with the same key, or adds it.
fn merge_items(
    field: FieldMeta<'_>,
    key: &str,
    mut items: Vec<Value>,
    patch: Vec<Value>,
    mode: Mode,
) -> Result<Vec<Value>, PatchError> {
    let mut positions = Order::of(&items, Some(key))?.positions;
    for change in patch {
        let identity = identity(&change, Some(key))?.clone();
        let Some(position) = positions.get(&identity) else {
            positions.insert(identity, items.len());
            items.push(change);
            continue;
        };
        if let (Value::Object(item), Value::Object(change)) = (items[*position].take(), change) {
            items[*position] = Value::Object(merge_objects(field.meta, item, change, mode)?);
        }
    }
    Ok(items)
}
