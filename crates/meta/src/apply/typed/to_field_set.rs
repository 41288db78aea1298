//! The set of fields that an object has.

use serde_json::{Map, Value};

use super::item::sorted_elements;
use super::{ListShape, MapShape, Shape, Type};
use crate::apply::field_set::{FieldNode, FieldSet};
use crate::apply::path_element::PathElement;

impl Type<'_> {
    /// Returns all fields that a value sets: scalars, atomic values, list items, map entries, and
    /// empty objects.
    pub fn to_field_set(self, value: &Value) -> FieldSet {
        self.fields(value).1
    }

    /// Returns whether the path itself is a field, and the fields below it.
    fn fields(self, value: &Value) -> (bool, FieldSet) {
        match (self.shape(value), value) {
            (Shape::Scalar(_), _) => (true, FieldSet::new()),
            (Shape::List(shape), _) if shape.is_atomic() => (true, FieldSet::new()),
            (Shape::Map(shape), _) if shape.is_atomic() => (true, FieldSet::new()),
            (Shape::List(shape), Value::Array(items)) => (false, items_of(shape, items)),
            (Shape::Map(shape), Value::Object(map)) => (false, entries_of(shape, map)),
            _ => (false, FieldSet::new()),
        }
    }
}

fn entries_of(shape: MapShape<'_>, map: &Map<String, Value>) -> FieldSet {
    let mut nodes = Vec::with_capacity(map.len());
    for (name, value) in map {
        let (is_field, children) = shape.child(name).fields(value);
        let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        let member = is_field || is_empty || !shape.declares(name);
        if member || !children.is_empty() {
            nodes.push(FieldNode { element: PathElement::field(name.as_str()), member, children });
        }
    }
    FieldSet::from_nodes(nodes)
}

fn items_of(shape: ListShape<'_>, items: &[Value]) -> FieldSet {
    let mut nodes: Vec<FieldNode> = Vec::with_capacity(items.len());
    for (element, item) in sorted_elements(shape, items) {
        match nodes.last_mut() {
            // Items with equal keys are owned as one: their fields cannot be distinguished.
            Some(last) if last.element == element => last.children = FieldSet::new(),
            _ => nodes.push(FieldNode { element, member: true, children: shape.item().fields(item).1 }),
        }
    }
    FieldSet::from_nodes(nodes)
}
