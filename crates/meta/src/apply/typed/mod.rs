//! Typed values: an untyped object together with its schema, for comparison, merge and field sets.
//!
//! Maps are granular and lists atomic unless the schema says otherwise; the same holds for untyped
//! parts of custom resources.

mod compare;
mod creation;
mod initial;
mod item;
mod merge;
mod named;
mod reconcile;
mod remove;
mod to_field_set;
mod validate;

use std::fmt;
use std::sync::LazyLock;

use serde_json::{Map, Value};

pub use compare::Comparison;
pub(super) use creation::IgnoredFields;
pub use validate::Strictness;

use crate::schema::{ListMerge, ListNode, Node, NodeId, ObjectNode, Rest, Scalar, Schema};

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub struct Type<'s> {
    schema: &'s Schema,
    /// `None` for an untyped value.
    node: Option<&'s Node>,
}

/// The structure of a value. An untyped value has the shape of its JSON form.
#[derive(Clone, Copy, Debug)]
enum Shape<'s> {
    Scalar(Option<Scalar>),
    List(ListShape<'s>),
    Map(MapShape<'s>),
}

#[derive(Clone, Copy, Debug)]
struct ListShape<'s> {
    schema: &'s Schema,
    node: Option<&'s ListNode>,
}

#[derive(Clone, Copy, Debug)]
struct MapShape<'s> {
    schema: &'s Schema,
    node: Option<&'s ObjectNode>,
}

impl<'s> Type<'s> {
    /// Returns the type of a schema node.
    pub fn new(schema: &'s Schema, node: NodeId) -> Self {
        Self { schema, node: Some(schema.node(node)) }
    }

    /// Returns the type of an untyped value.
    fn deduced(schema: &'s Schema) -> Self {
        Self { schema, node: None }
    }

    fn shape(self, value: &Value) -> Shape<'s> {
        let schema = self.schema;
        match self.node {
            Some(Node::Scalar(scalar)) => Shape::Scalar(Some(*scalar)),
            Some(Node::List(list)) => Shape::List(ListShape { schema, node: Some(list) }),
            Some(Node::Object(object)) => Shape::Map(MapShape { schema, node: Some(object) }),
            Some(Node::Any) | None => self.shape_of_any(value, None),
            Some(Node::Raw) => self.shape_of_any(value, Some(&RAW_OBJECT)),
        }
    }
}

impl<'s> Type<'s> {
    /// Returns the shape of an untyped value. Its lists are atomic, and its objects are if `object`
    /// is.
    fn shape_of_any(self, value: &Value, object: Option<&'s ObjectNode>) -> Shape<'s> {
        let schema = self.schema;
        match value {
            Value::Array(_) => Shape::List(ListShape { schema, node: None }),
            Value::Object(_) | Value::Null => Shape::Map(MapShape { schema, node: object }),
            _ => Shape::Scalar(None),
        }
    }
}

/// The object type of a `RawExtension`, like kube-apiserver's `__untyped_atomic_`.
static RAW_OBJECT: LazyLock<ObjectNode> = LazyLock::new(|| {
    let mut object = ObjectNode::new(Vec::new());
    object.rest = Rest::Preserved;
    object.atomic = true;
    object
});

impl Shape<'_> {
    fn same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl<'s> ListShape<'s> {
    fn is_atomic(self) -> bool {
        self.node.is_none_or(|node| node.merge == ListMerge::Atomic)
    }

    fn item(self) -> Type<'s> {
        match self.node {
            Some(node) => Type::new(self.schema, node.item),
            None => Type::deduced(self.schema),
        }
    }
}

impl<'s> MapShape<'s> {
    fn is_atomic(self) -> bool {
        self.node.is_some_and(|node| node.atomic)
    }

    /// Returns true if this is a declared field and not a key of a map.
    fn declares(self, name: &str) -> bool {
        self.node.is_some_and(|node| node.field(name).is_some())
    }

    /// Returns the type of the value under this key; `None` if the type has no such field.
    fn declared(self, name: &str) -> Option<Type<'s>> {
        let Some(node) = self.node else { return Some(Type::deduced(self.schema)) };
        if let Some(value) = node.value_node(name) {
            return Some(Type::new(self.schema, value));
        }
        // An object without declared fields may have any.
        let is_open = node.rest == Rest::Preserved || node.fields().is_empty();
        is_open.then(|| Type::deduced(self.schema))
    }

    /// Returns the type of the value under this key; untyped if the type has no such field.
    fn child(self, name: &str) -> Type<'s> {
        self.declared(name).unwrap_or_else(|| Type::deduced(self.schema))
    }
}

fn as_map(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

fn as_list(value: Option<&Value>) -> Option<&[Value]> {
    value.and_then(Value::as_array).map(Vec::as_slice)
}

/// The mismatches between an object and its schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TypeErrors(pub Vec<TypeError>);

/// A mismatch at one path of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    /// The path, formatted; empty for the object itself.
    pub path: String,
    /// The message.
    pub message: String,
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl fmt::Display for TypeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}
