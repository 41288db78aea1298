//! The initial state of an object: what exists before anything is written to it.
//!
//! Objects in kube-apiserver are Go structs: a field of struct type, and a field without
//! `omitempty`, exist from the start. A required field with `omitempty` does not. A manager that
//! writes below an existing field does not add the field and does not own it: a created Deployment
//! has `f:spec` without `"."` in its managedFields, and a custom resource has it with `"."`.

use serde_json::{Map, Value};

use super::Type;
use crate::schema::{Field, Node, Schema};

/// Recursion limit. A Go struct cannot contain itself, so real types never reach it.
const MAX_NESTED_STRUCTS: usize = 32;

impl Type<'_> {
    /// Returns the object that creation starts from. In a schema generated from Kubernetes' OpenAPI
    /// document, a field of struct type has the default `{}`.
    pub fn initial(self) -> Value {
        match self.node {
            Some(node) => initial(self.schema, node, MAX_NESTED_STRUCTS),
            None => Value::Object(Map::new()),
        }
    }
}

fn initial(schema: &Schema, node: &Node, depth: usize) -> Value {
    let Node::Object(object) = node else { return Value::Null };
    let fields = object.fields().iter().filter_map(|field| {
        let value = initial_field(schema, field, depth.checked_sub(1)?)?;
        Some((field.name.to_string(), value))
    });
    Value::Object(fields.collect())
}

fn initial_field(schema: &Schema, field: &Field, depth: usize) -> Option<Value> {
    let node = schema.node(field.node);
    match (&field.default, node) {
        (Some(Value::Object(default)), Node::Object(_)) if default.is_empty() => {
            Some(initial(schema, node, depth))
        }
        (Some(default), Node::Scalar(_)) if field.written_empty => Some(default.clone()),
        (None, _) if field.written_empty => Some(Value::Null),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ListMerge, ListNode, ObjectNode, Scalar};
    use serde_json::json;

    #[test]
    fn initial_object_has_structs_and_fields_without_omitempty() {
        let mut schema = Schema::new();
        let text = schema.add(Node::Scalar(Scalar::String));
        let list = schema.add(Node::List(ListNode { item: text, merge: ListMerge::Atomic }));
        let written =
            |name: &str, node, default| Field { written_empty: true, default, ..Field::new(name, node) };
        let inner = schema.reserve();
        let fields = vec![
            written("name", text, Some(json!(""))),
            written("items", list, None),
            Field { default: Some(json!("TCP")), ..Field::new("protocol", text) },
            Field::new("pointer", inner),
            Field { required: true, ..Field::new("parent", inner) },
            Field { written_empty: true, ..Field::new("rules", list) },
            Field { written_empty: true, ..Field::new("time", text) },
            Field { written_empty: true, default: Some(json!("")), ..Field::new("reporter", text) },
            Field { default: Some(json!({})), ..Field::new("itself", inner) },
        ];
        schema.set(inner, Node::Object(ObjectNode::new(fields)));
        let initial = Type::new(&schema, inner).initial();
        assert_eq!(initial["name"], json!(""));
        assert_eq!(initial.get("items"), Some(&Value::Null));
        assert_eq!(initial.get("rules"), Some(&Value::Null));
        assert_eq!(initial.get("time"), Some(&Value::Null));
        assert_eq!(initial["reporter"], json!(""));
        assert_eq!(initial.as_object().unwrap().len(), 6, "{initial}");
        assert_eq!(initial["itself"]["itself"]["name"], json!(""));
    }
}
