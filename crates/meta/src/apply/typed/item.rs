//! Path elements of list items.

use serde_json::Value;

use super::ListShape;
use crate::apply::go_format;
use crate::apply::path_element::{KeyField, PathElement};
use crate::schema::{ListMerge, Node};

impl ListShape<'_> {
    /// Returns the element that identifies an item of a set or of a list with keys.
    pub(super) fn element(self, item: &Value) -> Result<PathElement, String> {
        match self.node.map(|node| &node.merge) {
            Some(ListMerge::Map(keys)) => self.keyed(keys, item),
            Some(ListMerge::Set) => set_member(item),
            Some(ListMerge::Atomic) | None => Err("invalid indexing of non-associative list".to_owned()),
        }
    }

    fn keyed(self, keys: &[Box<str>], item: &Value) -> Result<PathElement, String> {
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            // An item that lacks a key without default differs from every item that has the key.
            if let Some(value) = fields.get(&**key).or_else(|| self.key_default(key)) {
                found.push(KeyField { name: key.clone(), value: value.clone() });
            }
        }
        if found.is_empty() && !keys.is_empty() {
            let keys: Vec<_> = keys.iter().map(|key| go_format::quoted(key)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                keys.join(" ")
            ));
        }
        Ok(PathElement::key(found))
    }

    fn key_default(&self, key: &str) -> Option<&Value> {
        match self.schema.node(self.node?.item) {
            Node::Object(object) => object.field(key)?.default.as_ref(),
            _ => None,
        }
    }
}

fn set_member(item: &Value) -> Result<PathElement, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        scalar => Ok(PathElement::value(scalar.clone())),
    }
}

/// Returns the items of a list with their elements, ascending; items with equal elements stay in
/// list order. Omits items without a valid element: objects are validated before they get here.
pub(super) fn sorted_elements<'v>(shape: ListShape<'_>, items: &'v [Value]) -> Vec<(PathElement, &'v Value)> {
    let mut elements: Vec<_> =
        items.iter().filter_map(|item| Some((shape.element(item).ok()?, item))).collect();
    elements.sort_by(|a, b| a.0.cmp(&b.0));
    elements
}
