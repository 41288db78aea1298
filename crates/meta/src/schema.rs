//! Schemas: the types of objects, as a compact graph of nodes that all users share.
//!
//! Strategic merge patches, server-side apply, pruning, strict decoding and the protobuf codec all
//! walk an object together with its schema. Types refer to each other (and to themselves, as JSON
//! schemas do), so nodes are indices into one table and not a tree.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::prefix::Prefix;

/// Index of a node in a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

/// A table of types.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    nodes: Vec<Node>,
}

/// The type of a value.
#[derive(Clone, Debug)]
pub enum Node {
    /// A scalar value.
    Scalar(Scalar),
    /// An object or map.
    Object(ObjectNode),
    /// A list.
    List(ListNode),
    /// Any value, preserved unchanged.
    Any,
    /// Any value, which apply treats as atomic: a `RawExtension`.
    Raw,
}

/// Types of scalar values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A string.
    String,
    /// Bytes, base64-encoded in JSON.
    Bytes,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A floating-point number.
    Double,
    /// A boolean.
    Boolean,
    /// An integer or a string, such as a port or a percentage.
    IntOrString,
    /// A resource quantity, such as `500m`.
    Quantity,
    /// A timestamp with a precision of seconds.
    Time,
    /// A timestamp with a precision of microseconds.
    MicroTime,
    /// A scalar of any type.
    Untyped,
}

/// An object or map.
#[derive(Clone, Debug, Default)]
pub struct ObjectNode {
    /// Declared fields, ascending by name; see [`ObjectNode::field`].
    fields: Box<[Field]>,
    /// Prefixes of the field names, in the same order.
    prefixes: Box<[Prefix]>,
    /// Handling of keys that are not declared fields.
    pub rest: Rest,
    /// True if apply treats the object as one value.
    pub atomic: bool,
    /// Name of the Go type in Kubernetes; empty if it has none.
    pub type_name: &'static str,
    /// True for `x-kubernetes-embedded-resource`: a complete object with `apiVersion`, `kind` and
    /// `metadata`.
    pub embedded_resource: bool,
}

/// Handling of keys that are not declared fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// Unknown fields: reported as warnings or errors, and pruned.
    #[default]
    Unknown,
    /// A map with values of this type.
    Map(NodeId),
    /// Unknown fields are preserved.
    Preserved,
}

/// A declared field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    /// The name.
    pub name: Box<str>,
    /// The type of the value.
    pub node: NodeId,
    /// True if the field is required.
    pub required: bool,
    /// True if `null` is a value distinct from absence.
    pub nullable: bool,
    /// True if the field is serialized even when empty: as its default, or as `null`.
    pub written_empty: bool,
    /// The default value.
    pub default: Option<Value>,
    /// How a strategic merge patch changes the field.
    pub patch: PatchStrategy,
}

impl Field {
    /// Creates an optional field without default.
    pub fn new(name: impl Into<Box<str>>, node: NodeId) -> Self {
        Self {
            name: name.into(),
            node,
            required: false,
            nullable: false,
            written_empty: false,
            default: None,
            patch: PatchStrategy::default(),
        }
    }
}

/// How a strategic merge patch changes a field (`x-kubernetes-patch-strategy`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists are merged instead of replaced.
    pub merge: bool,
    /// The key that identifies items of a merged list. Without one, the list is merged as a set of
    /// scalars.
    pub merge_key: Option<Box<str>>,
    /// A patch may contain `$retainKeys`, which drops all fields it does not list.
    pub retain_keys: bool,
    /// Objects are replaced instead of merged.
    pub replace: bool,
}

/// A list.
#[derive(Clone, Debug)]
pub struct ListNode {
    /// The type of its items.
    pub item: NodeId,
    /// How apply merges the list.
    pub merge: ListMerge,
}

/// How apply merges a list (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListMerge {
    /// Replaced as one value.
    #[default]
    Atomic,
    /// Merged as a set of scalars.
    Set,
    /// Merged by these key fields of its items.
    Map(Box<[Box<str>]>),
}

impl ObjectNode {
    /// Creates an object with these fields.
    pub fn new(mut fields: Vec<Field>) -> Self {
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        let prefixes = fields.iter().map(|field| Prefix::of(&field.name)).collect();
        Self { fields: fields.into(), prefixes, ..Self::default() }
    }

    /// Creates a map with values of this type.
    pub fn map_of(values: NodeId) -> Self {
        Self { rest: Rest::Map(values), ..Self::default() }
    }

    /// Returns all declared fields, ascending by name.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the declared field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let prefix = Prefix::of(name);
        let first = self.prefixes.partition_point(|other| *other < prefix);
        let matching = self.prefixes[first..].iter().take_while(|other| **other == prefix).count();
        self.fields[first..first + matching].iter().find(|field| *field.name == *name)
    }

    /// Returns the type of the value under this key.
    pub fn value_node(&self, name: &str) -> Option<NodeId> {
        match (self.field(name), self.rest) {
            (Some(field), _) => Some(field.node),
            (None, Rest::Map(values)) => Some(values),
            (None, Rest::Unknown | Rest::Preserved) => None,
        }
    }
}

impl Schema {
    /// Creates an empty schema.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node.
    ///
    /// # Panics
    /// If the schema has more than 2³² nodes.
    pub fn add(&mut self, node: Node) -> NodeId {
        let id = u32::try_from(self.nodes.len()).expect("a schema has fewer than 2^32 nodes");
        self.nodes.push(node);
        NodeId(id)
    }

    /// Reserves a node that others refer to before it is defined; see [`Schema::set`].
    pub fn reserve(&mut self) -> NodeId {
        self.add(Node::Any)
    }

    /// Defines a reserved node.
    pub fn set(&mut self, id: NodeId, node: Node) {
        self.nodes[id.0 as usize] = node;
    }

    /// Returns a node of this schema.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Returns the node if it is an object.
    pub fn object(&self, id: NodeId) -> Option<&ObjectNode> {
        match self.node(id) {
            Node::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Copies a node of another schema, with all nodes it refers to.
    pub fn import(&mut self, other: &Self, id: NodeId) -> NodeId {
        self.import_into(other, id, &mut BTreeMap::new())
    }

    fn import_into(&mut self, other: &Self, id: NodeId, copies: &mut BTreeMap<NodeId, NodeId>) -> NodeId {
        if let Some(copy) = copies.get(&id) {
            return *copy;
        }
        let copy = self.reserve();
        copies.insert(id, copy);
        let mut node = other.node(id).clone();
        match &mut node {
            Node::Scalar(_) | Node::Any | Node::Raw => {}
            Node::List(list) => list.item = self.import_into(other, list.item, copies),
            Node::Object(object) => {
                for field in &mut object.fields {
                    field.node = self.import_into(other, field.node, copies);
                }
                if let Rest::Map(values) = &mut object.rest {
                    *values = self.import_into(other, *values, copies);
                }
            }
        }
        self.set(copy, node);
        copy
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns true if the schema has no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursive_type_resolves_to_itself() {
        let mut schema = Schema::new();
        let props = schema.reserve();
        let not = Field::new("not", props);
        let list = schema.add(Node::List(ListNode { item: props, merge: ListMerge::Atomic }));
        schema.set(props, Node::Object(ObjectNode::new(vec![not, Field::new("allOf", list)])));
        let object = schema.object(props).expect("node was set to an object");
        assert_eq!(object.value_node("not"), Some(props));
        assert_eq!(object.fields()[0].name.as_ref(), "allOf", "ascending by name");
        assert_eq!(object.value_node("other"), None);
    }

    #[test]
    fn import_copies_node_with_references() {
        let mut schema = Schema::new();
        schema.add(Node::Any);
        let props = schema.reserve();
        let text = schema.add(Node::Scalar(Scalar::String));
        schema.set(
            props,
            Node::Object(ObjectNode::new(vec![Field::new("not", props), Field::new("id", text)])),
        );
        let mut copy = Schema::new();
        let root = copy.import(&schema, props);
        assert_eq!(copy.len(), 2, "unreferenced nodes are not copied");
        let object = copy.object(root).expect("root is an object");
        assert_eq!(object.value_node("not"), Some(root));
        assert!(
            object.value_node("id").is_some_and(|id| matches!(copy.node(id), Node::Scalar(Scalar::String)))
        );
    }
}
