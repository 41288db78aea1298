//! Fields that the creator of an object owns, directly as `fieldsV1`.
//!
//! Most objects are written once, when no field has an owner yet. This fast path skips building,
//! comparing and encoding field sets; its result is the same as that of the general path.

use serde_json::{Map, Value};

use super::item::sorted_elements;
use super::{ListShape, MapShape, Shape, Type, as_list, as_map};
use crate::apply::field_set::{FieldNode, FieldSet};
use crate::apply::fields_v1::MEMBER;
use crate::apply::value_order;

/// Fields to ignore below a path.
#[derive(Clone, Copy, Default)]
pub(in crate::apply) struct IgnoredFields<'a> {
    /// Fields that are ignored; their descendants are not.
    pub(in crate::apply) fields: Option<&'a FieldSet>,
    /// Fields that are ignored with all their descendants.
    pub(in crate::apply) trees: Option<&'a FieldSet>,
}

/// The owned fields at a path.
struct Owned {
    /// True if the path itself is owned.
    member: bool,
    /// The owned descendants as `fieldsV1`.
    below: Map<String, Value>,
}

impl Type<'_> {
    /// Returns the fields of `new` that differ from `start`, as `fieldsV1`. `None` if only the
    /// general path can compute them: if `start` has a list, or an item lacks its keys.
    pub(in crate::apply) fn created(
        self,
        start: &Value,
        new: &Value,
        ignored: IgnoredFields<'_>,
    ) -> Option<Map<String, Value>> {
        self.owned(Some(start), new, ignored).map(|owned| owned.below)
    }

    fn owned(self, old: Option<&Value>, new: &Value, ignored: IgnoredFields<'_>) -> Option<Owned> {
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
                entries(shape, before, after, ignored)?
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
    ignored: IgnoredFields<'_>,
) -> Option<Map<String, Value>> {
    let mut below = Map::new();
    for (name, after) in new.into_iter().flatten() {
        let before = old.and_then(|old| old.get(name));
        let tree = ignored.trees.and_then(|trees| trees.field(name));
        if before == Some(after) || tree.is_some_and(|tree| tree.member) {
            continue;
        }
        let field = ignored.fields.and_then(|fields| fields.field(name));
        let within = IgnoredFields { fields: field.map(children), trees: tree.map(children) };
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
        let mut owned = shape.item().owned(None, first, IgnoredFields::default())?;
        if !rest.is_empty() {
            // Several items with the same element are owned as one, as if atomic.
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
