//! Declared parents of owned fields.

use super::Type;
use crate::apply::field_set::FieldSet;
use crate::apply::path_element::PathElement;
use crate::schema::{Node, ObjectNode, Rest};

impl<'s> Type<'s> {
    /// Adds each declared field that is an ancestor of a member. The manager that owns
    /// `spec.replicas` does not own `spec` by itself, but when everything below `spec` is removed,
    /// `spec` must go too. Keys of maps are not declared: they stay.
    #[must_use]
    pub fn with_named_fields(self, mut set: FieldSet) -> FieldSet {
        self.add_named_fields(&mut set);
        set
    }

    fn add_named_fields(self, set: &mut FieldSet) {
        for node in set.nodes_mut().iter_mut().filter(|node| !node.children.is_empty()) {
            let below = match (self.node, &node.element) {
                (Some(Node::Object(object)), PathElement::Field(name)) => {
                    node.member |= object.field(name).is_some();
                    self.entry(object, name)
                }
                (Some(Node::List(list)), PathElement::Key(_)) => Some(Type::new(self.schema, list.item)),
                _ => None,
            };
            if let Some(below) = below {
                below.add_named_fields(&mut node.children);
            }
        }
    }

    fn entry(self, object: &ObjectNode, name: &str) -> Option<Type<'s>> {
        match (object.field(name), object.rest) {
            (Some(field), _) => Some(Type::new(self.schema, field.node)),
            (None, Rest::Map(values)) => Some(Type::new(self.schema, values)),
            _ => None,
        }
    }
}
