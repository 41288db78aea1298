//! What the schema says about the place that a patch has come to.

use std::sync::LazyLock;

use crate::patch::error::PatchError;
use crate::schema::{Node, NodeId, PatchStrategy, Rest, Scalar, Schema};

/// How a field without a declaration is patched: maps are merged, lists replaced.
static PLAIN: LazyLock<PatchStrategy> = LazyLock::new(PatchStrategy::default);

/// A place in a schema, or nowhere.
#[derive(Clone, Copy, Debug)]
pub struct PatchMeta<'s> {
    place: Option<(&'s Schema, NodeId)>,
}

/// A field, and how it is patched.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldMeta<'s> {
    /// What it holds; for a list, what its items are.
    pub(super) meta: PatchMeta<'s>,
    pub(super) strategy: &'s PatchStrategy,
}

impl<'s> PatchMeta<'s> {
    /// Objects of this type.
    pub fn new(schema: &'s Schema, node: NodeId) -> Self {
        Self { place: Some((schema, node)) }
    }

    /// Objects of a type that nobody described: maps are merged and lists replaced.
    pub fn untyped() -> Self {
        Self { place: None }
    }

    /// An object in a field of this name.
    ///
    /// It is asked only when there is something to merge on both sides. The object came from
    /// this schema, so a name that it does not know is refused, as what is below values of
    /// maps and free-form fields is: nobody said how to merge them.
    pub(super) fn object_field(self, name: &str) -> Result<FieldMeta<'s>, PatchError> {
        let Some((schema, node)) = self.place else {
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

    /// Items of a list in a field of this name.
    pub(super) fn list_field(self, name: &str) -> Result<FieldMeta<'s>, PatchError> {
        let field = self.object_field(name)?;
        let Some((schema, node)) = field.meta.place else { return Ok(field) };
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
    /// The key by which items are told apart.
    pub(super) fn merge_key(&self) -> Option<&str> {
        self.strategy.merge_key.as_deref()
    }
}

/// The word of Go's reflection for a node.
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
