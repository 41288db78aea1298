//! Removal and extraction of fields.

use serde_json::{Map, Value};

use super::{ListShape, MapShape, Shape, Type};
use crate::apply::field_set::{FieldNode, FieldSet};

impl Type<'_> {
    /// Returns the value without these fields. A map or list that becomes empty, or an atomic one
    /// that loses a part, becomes null.
    pub fn remove(self, value: Value, fields: &FieldSet) -> Value {
        match (self.shape(&value), value) {
            (Shape::Scalar(_), value) => value,
            (Shape::List(shape), Value::Array(items)) if !shape.is_atomic() => {
                let remaining = items.into_iter().filter_map(|item| remove_item(shape, item, fields));
                non_empty_list(remaining.collect())
            }
            (Shape::Map(shape), Value::Object(map)) if !shape.is_atomic() => {
                let remaining = map.into_iter().filter_map(|(name, value)| {
                    let value = remove_entry(shape, &name, value, fields)?;
                    Some((name, value))
                });
                non_empty_map(remaining.collect())
            }
            _ => Value::Null,
        }
    }

    /// Returns only these fields of the value, with their parents.
    pub fn extract(self, value: &Value, fields: &FieldSet) -> Value {
        match (self.shape(value), value) {
            (Shape::List(shape), Value::Array(items)) if !shape.is_atomic() && !items.is_empty() => {
                let remaining = items.iter().filter_map(|item| {
                    let node = fields.node(&shape.element(item).ok()?)?;
                    Some(extract_at(shape.item(), item, node))
                });
                non_empty_list(remaining.collect())
            }
            (Shape::Map(shape), Value::Object(map)) if !shape.is_atomic() && !map.is_empty() => {
                let remaining = map.iter().filter_map(|(name, value)| {
                    let node = fields.field(name)?;
                    Some((name.clone(), extract_at(shape.child(name), value, node)))
                });
                non_empty_map(remaining.collect())
            }
            _ => value.clone(),
        }
    }
}

fn remove_item(shape: ListShape<'_>, item: Value, fields: &FieldSet) -> Option<Value> {
    let element = shape.element(&item).ok();
    match element.and_then(|element| fields.node(&element)) {
        Some(node) => remove_at(shape.item(), item, node),
        None => Some(item),
    }
}

fn remove_entry(shape: MapShape<'_>, name: &str, value: Value, fields: &FieldSet) -> Option<Value> {
    match fields.field(name) {
        Some(node) => remove_at(shape.child(name), value, node),
        None => Some(value),
    }
}

fn remove_at(ty: Type<'_>, value: Value, node: &FieldNode) -> Option<Value> {
    (!node.member).then(|| ty.remove(value, &node.children))
}

fn extract_at(ty: Type<'_>, value: &Value, node: &FieldNode) -> Value {
    if node.children.is_empty() { value.clone() } else { ty.extract(value, &node.children) }
}

fn non_empty_list(items: Vec<Value>) -> Value {
    if items.is_empty() { Value::Null } else { Value::Array(items) }
}

fn non_empty_map(map: Map<String, Value>) -> Value {
    if map.is_empty() { Value::Null } else { Value::Object(map) }
}
