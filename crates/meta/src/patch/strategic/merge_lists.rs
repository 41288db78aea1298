//! Merges the items of a list in a patch into those of a list in an object.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::directives::{DELETE, MERGE, PATCH, REPLACE, is_deletion};
use super::merge_objects::{Mode, merge_objects};
use super::patch_meta::FieldMeta;
use crate::patch::describe::{quote_list, same_type};
use crate::patch::error::PatchError;

/// What the items of a patch are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// To be in the list.
    Items,
    /// To be taken out of it, if they are scalars.
    Deletions,
}

/// What items of merged lists are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Object,
    Scalar,
}

/// Merges two lists, or takes the one in the patch if the field is not declared as merged.
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
            let (items, patch) = carry_out_directives(items, patch, key)?;
            let server_order = Order::of(&items, Some(key))?;
            let patch_order = Order::of(&patch, Some(key))?;
            let merged = merge_items(field, key, items, patch, mode)?;
            arrange(merged, &patch_order, &server_order)
        }
    }
}

/// What the items of both lists are.
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

/// Which place each item has, by what tells it apart: its key or, for scalars, itself.
pub(super) struct Order<'k> {
    key: Option<&'k str>,
    places: HashMap<Value, usize>,
}

impl<'k> Order<'k> {
    /// The places of items in a list; with a key, all must be objects that have it.
    pub(super) fn of(items: &[Value], key: Option<&'k str>) -> Result<Self, PatchError> {
        let identities = items.iter().map(|item| identity(item, key)).collect::<Result<_, _>>()?;
        Ok(Self::of_identities(identities, key))
    }

    /// The places of items that are told apart by these.
    pub(super) fn of_identities(identities: Vec<&Value>, key: Option<&'k str>) -> Self {
        let mut places = HashMap::with_capacity(identities.len());
        for (place, identity) in identities.into_iter().enumerate() {
            places.entry(identity.clone()).or_insert(place);
        }
        Self { key, places }
    }

    /// The place of an item, if it has one.
    fn place(&self, item: &Value) -> Result<Option<usize>, PatchError> {
        Ok(self.places.get(identity(item, self.key)?).copied())
    }
}

/// What tells an item apart.
pub(super) fn identity<'i>(item: &'i Value, key: Option<&str>) -> Result<&'i Value, PatchError> {
    let Some(key) = key else { return Ok(item) };
    let Value::Object(fields) = item else {
        return Err(PatchError::wrong_type(&Value::Object(serde_json::Map::new()), item));
    };
    fields.get(key).ok_or_else(|| PatchError::no_merge_key(item, key))
}

/// Brings merged items in order: those the patch names as it has them, the others as they
/// were; both orders hold, and where they leave a choice, that of the object counts.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &Order<'_>,
    server_order: &Order<'_>,
) -> Result<Vec<Value>, PatchError> {
    let mut from_patch = Vec::new();
    let mut from_server = Vec::new();
    for item in merged {
        let server_place = server_order.place(&item)?;
        match patch_order.place(&item)? {
            Some(place) => from_patch.push((Some(place), server_place, item)),
            None => from_server.push((server_place, server_place, item)),
        }
    }
    let patch_items = sorted(from_patch).into_iter();
    let mut server_items = sorted(from_server).into_iter().peekable();
    let mut arranged = Vec::with_capacity(patch_items.len() + server_items.len());
    for (patch_place, item) in patch_items {
        while let Some((place, earlier)) = server_items.next_if(|(place, _)| is_before(*place, patch_place)) {
            debug_assert!(place.is_some(), "only what has a place comes before something");
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

/// Items by their place, with their place in the object. Those without one come first, the
/// last of them foremost, and deletions come last, as in kube-apiserver.
fn sorted(mut items: Vec<(Option<usize>, Option<usize>, Value)>) -> Vec<(Option<usize>, Value)> {
    let mut deletions = Vec::new();
    let mut placed = Vec::with_capacity(items.len());
    let mut unplaced = Vec::new();
    for (place, server_place, item) in items.drain(..) {
        match place {
            _ if is_deletion(&item) => deletions.push((server_place, item)),
            Some(place) => placed.push((place, (server_place, item))),
            None => unplaced.push((server_place, item)),
        }
    }
    placed.sort_by_key(|(place, _)| *place);
    unplaced.reverse();
    unplaced.extend(placed.into_iter().map(|(_, item)| item));
    unplaced.extend(deletions);
    unplaced
}

/// Each value once, where it comes first.
fn distinct(items: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    items.filter(|item| seen.insert(item.clone())).collect()
}

/// Carries out the directives among the items of a patch, and leaves the others.
fn carry_out_directives(
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
    let mut places = Order::of(&items, Some(key))?.places;
    for change in patch {
        let identity = identity(&change, Some(key))?.clone();
        let Some(place) = places.get(&identity) else {
            places.insert(identity, items.len());
            items.push(change);
            continue;
        };
        if let (Value::Object(item), Value::Object(change)) = (items[*place].take(), change) {
            items[*place] = Value::Object(merge_objects(field.meta, item, change, mode)?);
        }
    }
    Ok(items)
}
