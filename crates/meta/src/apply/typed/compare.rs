//! Field-by-field comparison of two objects of a type.

use serde_json::{Map, Value};

use super::item::sorted_elements;
use super::{ListShape, MapShape, Shape, Type, as_list, as_map};
use crate::apply::field_set::{FieldNode, FieldSet};
use crate::apply::path_element::PathElement;
use crate::apply::value_order;

/// The differences of an object from an earlier version of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the old object has.
    pub removed: FieldSet,
    /// Fields with a different value.
    pub modified: FieldSet,
    /// Fields that only the new object has.
    pub added: FieldSet,
    /// True if a changed list of the new object has items without a valid key; those are not
    /// compared.
    pub is_malformed: bool,
}

impl Comparison {
    /// Returns true if no field differs.
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }
}

/// The difference at a path, and below it.
#[derive(Default)]
struct Difference {
    removed: bool,
    modified: bool,
    added: bool,
    below: Nodes,
}

/// The nodes of a [`Comparison`] under construction.
#[derive(Default)]
struct Nodes {
    removed: Vec<FieldNode>,
    modified: Vec<FieldNode>,
    added: Vec<FieldNode>,
    is_malformed: bool,
}

impl Type<'_> {
    /// Compares two objects.
    pub fn compare(self, old: &Value, new: &Value) -> Comparison {
        let nodes = self.difference(Some(old), Some(new)).below;
        Comparison {
            removed: FieldSet::from_nodes(nodes.removed),
            modified: FieldSet::from_nodes(nodes.modified),
            added: FieldSet::from_nodes(nodes.added),
            is_malformed: nodes.is_malformed,
        }
    }

    fn difference(self, old: Option<&Value>, new: Option<&Value>) -> Difference {
        let shapes = (old.map(|old| self.shape(old)), new.map(|new| self.shape(new)));
        match shapes {
            // Only untyped values change their shape: each side is then compared in its own shape.
            (Some(before), Some(after)) if !before.same_kind(&after) => {
                let mut difference = difference_of_shape(before, old, new);
                difference.merge(difference_of_shape(after, old, new));
                difference
            }
            (_, Some(shape)) | (Some(shape), None) => difference_of_shape(shape, old, new),
            (None, None) => Difference::default(),
        }
    }
}

fn difference_of_shape(shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> Difference {
    let below = match shape {
        Shape::Map(shape) => {
            let (before, after) = (as_map(old), as_map(new));
            let both_empty = before.is_none_or(Map::is_empty) && after.is_none_or(Map::is_empty);
            if shape.is_atomic() || both_empty {
                return leaf(old, new);
            }
            entries(shape, before, after)
        }
        Shape::List(shape) => {
            let (before, after) = (as_list(old).unwrap_or_default(), as_list(new).unwrap_or_default());
            if shape.is_atomic() || (before.is_empty() && after.is_empty()) {
                return leaf(old, new);
            }
            items(shape, before, after)
        }
        Shape::Scalar(_) => return leaf(old, new),
    };
    Difference { removed: new.is_none(), modified: false, added: old.is_none(), below }
}

/// Compares scalars and atomic values, which differ only as a whole.
fn leaf(old: Option<&Value>, new: Option<&Value>) -> Difference {
    let modified = matches!((old, new), (Some(old), Some(new)) if !value_order::equal(old, new));
    Difference { removed: new.is_none(), modified, added: old.is_none(), below: Nodes::default() }
}

fn entries(shape: MapShape<'_>, old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>) -> Nodes {
    let mut nodes = Nodes::default();
    for (name, before) in old.into_iter().flatten() {
        let after = new.and_then(|new| new.get(name));
        // Skip equal values without a schema lookup: most of an object is unchanged. Values without
        // a schema are compared only once, by the recursion: they may be so deep that a comparison of
        // the whole subtree at each level takes seconds.
        if shape.node.is_some() && after == Some(before) {
            continue;
        }
        let difference = shape.child(name).difference(Some(before), after);
        nodes.push(difference, || PathElement::field(name.as_str()));
    }
    for (name, after) in new.into_iter().flatten() {
        if old.is_none_or(|old| !old.contains_key(name)) {
            let difference = shape.child(name).difference(None, Some(after));
            nodes.push(difference, || PathElement::field(name.as_str()));
        }
    }
    nodes
}

fn items(shape: ListShape<'_>, old: &[Value], new: &[Value]) -> Nodes {
    let mut nodes = Nodes::default();
    let count = new.len();
    let (old, new) = (sorted_elements(shape, old), sorted_elements(shape, new));
    nodes.is_malformed = new.len() != count;
    let (mut old, mut new) = (old.as_slice(), new.as_slice());
    while let Some(element) = old.first().into_iter().chain(new.first()).map(|item| &item.0).min() {
        let (before, after) = (split_equal(&mut old, element), split_equal(&mut new, element));
        nodes.push(same_item(shape, before, after), || element.clone());
    }
    nodes
}

/// Splits off the leading items that have this element.
fn split_equal<'a, 'v>(
    items: &mut &'a [(PathElement, &'v Value)],
    element: &PathElement,
) -> &'a [(PathElement, &'v Value)] {
    let count = items.iter().take_while(|item| item.0 == *element).count();
    let (equal, rest) = items.split_at(count);
    *items = rest;
    equal
}

/// Compares the items of one element. Several items with the same element are owned as one, as if
/// atomic.
fn same_item(
    shape: ListShape<'_>,
    old: &[(PathElement, &Value)],
    new: &[(PathElement, &Value)],
) -> Difference {
    let item = shape.item();
    match (old, new) {
        ([old], [new]) if old.1 == new.1 => Difference::default(),
        ([] | [_], [] | [_]) => {
            item.difference(old.first().map(|item| item.1), new.first().map(|item| item.1))
        }
        ([_, _, ..], [_, _, ..]) => {
            let equal = old.len() == new.len()
                && old.iter().zip(new).all(|(old, new)| value_order::equal(old.1, new.1));
            Difference { modified: !equal, ..Difference::default() }
        }
        ([_, _, ..], _) => {
            let difference = item.difference(None, new.first().map(|item| item.1));
            Difference { removed: true, ..difference }
        }
        (_, [_, _, ..]) => {
            let difference = item.difference(old.first().map(|item| item.1), None);
            Difference { added: true, ..difference }
        }
    }
}

impl Difference {
    fn merge(&mut self, other: Self) {
        self.removed |= other.removed;
        self.modified |= other.modified;
        self.added |= other.added;
        self.below.removed.extend(other.below.removed);
        self.below.modified.extend(other.below.modified);
        self.below.added.extend(other.below.added);
        self.below.is_malformed |= other.below.is_malformed;
    }
}

impl Nodes {
    fn push(&mut self, difference: Difference, element: impl Fn() -> PathElement) {
        let below = difference.below;
        self.is_malformed |= below.is_malformed;
        for (to, member, children) in [
            (&mut self.removed, difference.removed, below.removed),
            (&mut self.modified, difference.modified, below.modified),
            (&mut self.added, difference.added, below.added),
        ] {
            if member || !children.is_empty() {
                to.push(FieldNode { element: element(), member, children: FieldSet::from_nodes(children) });
            }
        }
    }
}
