//! What whoever creates an object comes to own, in the form in which it is stored.
//!
//! Most objects are written once, and nobody has owned anything of them before: then no set has to be
//! made, compared and taken apart again. The result is the same as that of the long way.

use serde_json::{Map, Value};

use super::item::sorted_elements;
use super::{ListShape, MapShape, Shape, Type, as_list, as_map};
use crate::apply::field_set::{FieldNode, FieldSet};
use crate::apply::fields_v1::MEMBER;
use crate::apply::value_order;

/// Fields that do not count at some place.
#[derive(Clone, Copy, Default)]
pub(in crate::apply) struct Uncounted<'a> {
    /// These, but what lies below them may.
    pub(in crate::apply) fields: Option<&'a FieldSet>,
    /// These, and all that lies below them.
    pub(in crate::apply) trees: Option<&'a FieldSet>,
}

/// What is owned at one place.
struct Owned {
    /// The place itself.
    member: bool,
    /// What lies below it, as it is stored.
    below: Map<String, Value>,
}

impl Type<'_> {
    /// What of `new` differs from `start`, as `fieldsV1`. None if only the long way can tell, because
    /// there is a list to begin with or an item without its keys.
    pub(in crate::apply) fn created(
        self,
        start: &Value,
        new: &Value,
        uncounted: Uncounted<'_>,
    ) -> Option<Map<String, Value>> {
        self.owned(Some(start), new, uncounted).map(|owned| owned.below)
    }

    fn owned(self, old: Option<&Value>, new: &Value, uncounted: Uncounted<'_>) -> Option<Owned> {
        let shape = self.shape(new);
        if old.is_some_and(|old| !self.shape(old).same_kind(&shape)) {
            return None;
        }
        let below = match shape {
            Shape::Map(shape) => {
                let (before, after) = (as_map(old), as_map(Some(new)));
                let both_empty = before.is_none_or(Map::is_empty) && after.is_none_or(Map::is_empty);
                if shape.is_atomic() || both_empty {
                    return Some(leaf(old, new));
                }
                entries(shape, before, after, uncounted)?
            }
            Shape::List(shape) => {
                let (before, after) =
                    (as_list(old).unwrap_or_default(), as_list(Some(new)).unwrap_or_default());
                if shape.is_atomic() || (before.is_empty() && after.is_empty()) {
                    return Some(leaf(old, new));
                }
                if !before.is_empty() {
                    return None;
                }
                items(shape, after)?
            }
            Shape::Scalar(_) => return Some(leaf(old, new)),
        };
        Some(Owned { member: old.is_none(), below })
    }
}

fn leaf(old: Option<&Value>, new: &Value) -> Owned {
    Owned { member: old.is_none_or(|old| !value_order::equal(old, new)), below: Map::new() }
}

fn entries(
    shape: MapShape<'_>,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    uncounted: Uncounted<'_>,
) -> Option<Map<String, Value>> {
    let mut below = Map::new();
    for (name, after) in new.into_iter().flatten() {
        let before = old.and_then(|old| old.get(name));
        let tree = uncounted.trees.and_then(|trees| trees.field(name));
        if before == Some(after) || tree.is_some_and(|tree| tree.member) {
            continue;
        }
        let field = uncounted.fields.and_then(|fields| fields.field(name));
        let within = Uncounted { fields: field.map(children), trees: tree.map(children) };
        let mut owned = shape.child(name).owned(before, after, within)?;
        owned.member &= !field.is_some_and(|field| field.member);
        owned.put(&mut below, || {
            let mut key = String::with_capacity(name.len() + 2);
            key.push_str("f:");
            key.push_str(name);
            key
        });
    }
    Some(below)
}

fn children(node: &FieldNode) -> &FieldSet {
    &node.children
}

fn items(shape: ListShape<'_>, new: &[Value]) -> Option<Map<String, Value>> {
    let mut below = Map::new();
    let elements = sorted_elements(shape, new);
    if elements.len() != new.len() {
        return None;
    }
    for same in elements.chunk_by(|one, other| one.0 == other.0) {
        let [(element, first), rest @ ..] = same else { continue };
        let mut owned = shape.item().owned(None, first, Uncounted::default())?;
        if !rest.is_empty() {
            // Several of one element are owned as one, as if atomic.
            owned = Owned { member: true, below: Map::new() };
        }
        owned.put(&mut below, || {
            let mut key = String::new();
            element.write_to(&mut key);
            key
        });
    }
    Some(below)
}

impl Owned {
    fn put(mut self, to: &mut Map<String, Value>, key: impl FnOnce() -> String) {
        if !self.below.is_empty() {
            if self.member {
                self.below.insert(MEMBER.to_owned(), Value::Object(Map::new()));
            }
        } else if !self.member {
            return;
        }
        to.insert(key(), Value::Object(self.below));
    }
}
