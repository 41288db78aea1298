//! Adaptation of field sets that were written under an earlier schema.
//!
//! If a list or map has become atomic, each manager that owned part of it owns the whole. The
//! opposite change needs no adaptation.

use serde_json::{Map, Value};

use super::Type;
use crate::apply::field_set::{FieldNode, FieldSet};
use crate::apply::path_element::PathElement;
use crate::schema::{ListMerge, Node};

impl<'s> Type<'s> {
    /// Adapts a set to this type.
    pub(in crate::apply) fn reconcile(self, set: &mut FieldSet) {
        for node in set.nodes_mut() {
            if node.children.is_empty() {
                continue;
            }
            if let Some(below) = self.below(&node.element) {
                below.reconcile_node(node);
            }
        }
    }

    /// Returns true if an encoded set needs no adaptation.
    pub(in crate::apply) fn fits(self, fields: &Map<String, Value>) -> bool {
        fields.iter().all(|(key, value)| match value {
            Value::Object(below) if !below.is_empty() => self.fits_below(key, below),
            _ => true,
        })
    }

    fn fits_below(self, key: &str, fields: &Map<String, Value>) -> bool {
        let below = match (self.node, key.strip_prefix("f:")) {
            (Some(Node::Object(object)), Some(name)) => object.value_node(name),
            (Some(Node::List(list)), _) => Some(list.item),
            _ => None,
        };
        let Some(below) = below.map(|node| Type::new(self.schema, node)) else { return true };
        match below.is_atomic() {
            Some(true) => false,
            Some(false) => below.fits(fields),
            None => true,
        }
    }

    fn reconcile_node(self, node: &mut FieldNode) {
        match self.is_atomic() {
            Some(true) => {
                node.member = true;
                node.children = FieldSet::new();
            }
            Some(false) => self.reconcile(&mut node.children),
            None => {}
        }
    }

    /// Returns true if values of the type are merged as a whole; `None` if the type does not decide
    /// that.
    fn is_atomic(self) -> Option<bool> {
        match self.node? {
            Node::Object(object) => Some(object.atomic),
            Node::List(list) => Some(list.merge == ListMerge::Atomic),
            Node::Raw => Some(true),
            Node::Scalar(_) | Node::Any => None,
        }
    }

    fn below(self, element: &PathElement) -> Option<Type<'s>> {
        match (self.node?, element) {
            (Node::Object(object), PathElement::Field(name)) => {
                object.value_node(name).map(|value| Type::new(self.schema, value))
            }
            (Node::List(list), _) => Some(Type::new(self.schema, list.item)),
            _ => None,
        }
    }
}
