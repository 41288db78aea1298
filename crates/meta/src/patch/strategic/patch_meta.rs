//! The position in the schema while a strategic merge patch is applied.

use std::sync::LazyLock;

use crate::patch::error::PatchError;
use crate::schema::{Node, NodeId, PatchStrategy, Rest, Scalar, Schema};

/// Strategy of fields without a declaration: maps are merged, lists replaced.
static PLAIN: LazyLock<PatchStrategy> = LazyLock::new(PatchStrategy::default);

/// A node of a schema; `None` for untyped objects.
#[derive(Clone, Copy, Debug)]
pub struct PatchMeta<'s> {
    node: Option<(&'s Schema, NodeId)>,
}

/// The type of a field, and its patch strategy.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldMeta<'s> {
    /// The type of the field; for a list, the type of its items.
    pub(super) meta: PatchMeta<'s>,
    pub(super) strategy: &'s PatchStrategy,
}

impl<'s> PatchMeta<'s> {
    /// Creates the position for objects of this type.
    pub fn new(schema: &'s Schema, node: NodeId) -> Self {
        Self { node: Some((schema, node)) }
    }

    /// Creates the position for objects without a schema: maps are merged and lists replaced.
    pub fn untyped() -> Self {
        Self { node: None }
    }

    /// Returns the field of this name, which holds an object.
    ///
    /// Called only if both object and patch have a value to merge. A name that the schema lacks is
    /// rejected, and so is everything below map values and free-form fields: the schema does not
    /// define how to merge them.
    pub(super) fn object_field(self, name: &str) -> Result<FieldMeta<'s>, PatchError> {
        let Some((schema, node)) = self.node else {
            return Ok(FieldMeta { meta: self, strategy: &PLAIN });
        };
        let object = match schema.node(node) {
            Node::Object(object) => object,
            Node::Any | Node::Raw => {
                return Err(PatchError::UnknownField { type_name: "", field: name.to_owned() });
            }
            other => return Err(PatchError::NotAnObject { actual: kind_name(other) }),
        };
        match (object.field(name), object.rest) {
            (Some(field), _) => Ok(FieldMeta { meta: Self::new(schema, field.node), strategy: &field.patch }),
            (None, Rest::Map(_)) => Err(PatchError::NotAnObject { actual: "map" }),
            (None, Rest::Unknown | Rest::Preserved) => {
                Err(PatchError::UnknownField { type_name: object.type_name, field: name.to_owned() })
            }
        }
    }

    /// Returns the field of this name, which holds a list, with the type of its items.
    pub(super) fn list_field(self, name: &str) -> Result<FieldMeta<'s>, PatchError> {
        let field = self.object_field(name)?;
        let Some((schema, node)) = field.meta.node else { return Ok(field) };
        let list = match schema.node(node) {
            Node::List(list) => list,
            _ => return Err(PatchError::NotAList),
        };
        if matches!(schema.node(list.item), Node::List(_)) {
            return Err(PatchError::NestedList);
        }
        Ok(FieldMeta { meta: Self::new(schema, list.item), strategy: field.strategy })
    }
}

impl FieldMeta<'_> {
    /// Returns the key that identifies items.
    pub(super) fn merge_key(&self) -> Option<&str> {
        self.strategy.merge_key.as_deref()
    }
}

/// Returns the kind of a node in terms of Go's reflection.
fn kind_name(node: &Node) -> &'static str {
    match node {
        Node::Object(object) if matches!(object.rest, Rest::Map(_)) => "map",
        Node::Object(_) | Node::Any | Node::Raw => "struct",
        Node::List(_) => "slice",
        Node::Scalar(scalar) => match scalar {
            Scalar::String => "string",
            Scalar::Bytes => "slice",
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Double => "float64",
            Scalar::Boolean => "bool",
            Scalar::IntOrString | Scalar::Quantity | Scalar::Time | Scalar::MicroTime => "struct",
            Scalar::Untyped => "interface",
        },
    }
}
