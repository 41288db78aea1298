//! What objects look like: a compact graph of nodes, shared by all who need it.
//!
//! Strategic merge patches, server-side apply, pruning, strict decoding and the protobuf
//! codec all walk an object together with its schema. Types refer to each other (and to
//! themselves, as JSON schemas do), so nodes are numbers in one table and not a tree.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::prefix::Prefix;

/// A node of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

/// A set of types.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    nodes: Vec<Node>,
}

/// What stands at one place of an object.
#[derive(Clone, Debug)]
pub enum Node {
    /// A single value.
    Scalar(Scalar),
    /// Fields by name.
    Object(ObjectNode),
    /// Items in order.
    List(ListNode),
    /// Anything at all, kept as it is.
    Any,
    /// The same, which apply treats as one value: a `RawExtension`.
    Raw,
}

/// Kinds of single values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Text.
    String,
    /// Bytes, in base64 in JSON.
    Bytes,
    /// A whole number of at most 32 bits.
    Int32,
    /// A whole number of at most 64 bits.
    Int64,
    /// Any number.
    Double,
    /// True or false.
    Boolean,
    /// A number or text, such as a port or a percentage.
    IntOrString,
    /// An amount with a unit.
    Quantity,
    /// A point in time, to the second.
    Time,
    /// A point in time, to the microsecond.
    MicroTime,
    /// Any single value.
    Untyped,
}

/// An object or map.
#[derive(Clone, Debug, Default)]
pub struct ObjectNode {
    /// Known fields, ascending by name; see [`ObjectNode::field`].
    fields: Box<[Field]>,
    /// How their names begin.
    prefixes: Box<[Prefix]>,
    /// What values of other keys look like.
    pub rest: Rest,
    /// Whether apply treats it as one value.
    pub atomic: bool,
    /// What upstream calls its type; empty for what has no name there.
    pub type_name: &'static str,
    /// Whether it is a whole object of its own, with `apiVersion`, `kind` and `metadata`.
    pub embedded_resource: bool,
}

/// Keys that are not among the known fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// Unknown fields: warned of or refused, and dropped.
    #[default]
    Unknown,
    /// A map with values of this type.
    Map(NodeId),
    /// Kept as they are.
    Preserved,
}

/// A known field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name.
    pub name: Box<str>,
    /// Its type.
    pub node: NodeId,
    /// Whether it must be there.
    pub required: bool,
    /// Whether `null` is a value, and not the same as absence.
    pub nullable: bool,
    /// Whether it is written even where it has no value: as its default, or as `null`.
    pub written_empty: bool,
    /// What it is when it is absent.
    pub default: Option<Value>,
    /// What a strategic merge patch does to it.
    pub patch: PatchStrategy,
}

impl Field {
    /// A field without particularities.
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

/// What a strategic merge patch does to a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists are merged and not replaced.
    pub merge: bool,
    /// The key by which items of a merged list are told apart; without one they are values
    /// of a set.
    pub merge_key: Option<Box<str>>,
    /// Fields that the patch does not name are dropped when it says so.
    pub retain_keys: bool,
    /// Objects are replaced and not merged.
    pub replace: bool,
}

/// A list.
#[derive(Clone, Debug)]
pub struct ListNode {
    /// What its items look like.
    pub item: NodeId,
    /// How apply merges it.
    pub merge: ListMerge,
}

/// How apply merges a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListMerge {
    /// Not at all: it is one value.
    #[default]
    Atomic,
    /// As a set of single values.
    Set,
    /// By these keys of its items.
    Map(Box<[Box<str>]>),
}

impl ObjectNode {
    /// An object with these fields.
    pub fn new(mut fields: Vec<Field>) -> Self {
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        let prefixes = fields.iter().map(|field| Prefix::of(&field.name)).collect();
        Self { fields: fields.into(), prefixes, ..Self::default() }
    }

    /// A map with values of this type.
    pub fn map_of(values: NodeId) -> Self {
        Self { rest: Rest::Map(values), ..Self::default() }
    }

    /// All known fields, ascending by name.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The known field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let prefix = Prefix::of(name);
        let first = self.prefixes.partition_point(|other| *other < prefix);
        let alike = self.prefixes[first..].iter().take_while(|other| **other == prefix).count();
        self.fields[first..first + alike].iter().find(|field| *field.name == *name)
    }

    /// The type of whatever stands under this name.
    pub fn value_node(&self, name: &str) -> Option<NodeId> {
        match (self.field(name), self.rest) {
            (Some(field), _) => Some(field.node),
            (None, Rest::Map(values)) => Some(values),
            (None, Rest::Unknown | Rest::Preserved) => None,
        }
    }
}

impl Schema {
    /// No types yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node.
    ///
    /// # Panics
    /// If there are more than 2³² of them.
    pub fn add(&mut self, node: Node) -> NodeId {
        let id = u32::try_from(self.nodes.len()).expect("a schema has fewer than 2^32 nodes");
        self.nodes.push(node);
        NodeId(id)
    }

    /// A place for a node that others refer to before it is known; see [`Schema::set`].
    pub fn reserve(&mut self) -> NodeId {
        self.add(Node::Any)
    }

    /// Says what stands at a reserved place.
    pub fn set(&mut self, id: NodeId, node: Node) {
        self.nodes[id.0 as usize] = node;
    }

    /// The node of an id that this schema gave out.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The object node of an id, if it is one.
    pub fn object(&self, id: NodeId) -> Option<&ObjectNode> {
        match self.node(id) {
            Node::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Copies a node of another schema, with everything it refers to.
    pub fn import(&mut self, other: &Self, id: NodeId) -> NodeId {
        self.import_into(other, id, &mut BTreeMap::new())
    }

    fn import_into(&mut self, other: &Self, id: NodeId, known: &mut BTreeMap<NodeId, NodeId>) -> NodeId {
        if let Some(copy) = known.get(&id) {
            return *copy;
        }
        let copy = self.reserve();
        known.insert(id, copy);
        let mut node = other.node(id).clone();
        match &mut node {
            Node::Scalar(_) | Node::Any | Node::Raw => {}
            Node::List(list) => list.item = self.import_into(other, list.item, known),
            Node::Object(object) => {
                for field in &mut object.fields {
                    field.node = self.import_into(other, field.node, known);
                }
                if let Rest::Map(values) = &mut object.rest {
                    *values = self.import_into(other, *values, known);
                }
            }
        }
        self.set(copy, node);
        copy
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_may_contain_themselves() {
        let mut schema = Schema::new();
        let props = schema.reserve();
        let not = Field::new("not", props);
        let list = schema.add(Node::List(ListNode { item: props, merge: ListMerge::Atomic }));
        schema.set(props, Node::Object(ObjectNode::new(vec![not, Field::new("allOf", list)])));
        let object = schema.object(props).expect("it was set to one");
        assert_eq!(object.value_node("not"), Some(props));
        assert_eq!(object.fields()[0].name.as_ref(), "allOf", "ascending by name");
        assert_eq!(object.value_node("other"), None);
    }

    #[test]
    fn types_are_copied_with_what_they_refer_to() {
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
        assert_eq!(copy.len(), 2, "what nobody refers to is left behind");
        let object = copy.object(root).expect("it is one");
        assert_eq!(object.value_node("not"), Some(root));
        assert!(
            object.value_node("id").is_some_and(|id| matches!(copy.node(id), Node::Scalar(Scalar::String)))
        );
    }
}
