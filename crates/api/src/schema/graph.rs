//! The node graph of [`coracle_meta::schema`] for the built-in types.

use std::collections::HashMap;
use std::sync::LazyLock;

use coracle_meta::schema::{
    self, ListMerge, ListNode, Node, NodeId, ObjectNode, PatchStrategy, Scalar, Schema,
};
use serde_json::{Map, Value};

use super::attributes::Attributes;
use super::types::{Field, Item, Shape, Single, Type, TypeId, types};

/// The nodes of all built-in types.
#[derive(Debug)]
pub struct Graph {
    schema: Schema,
    /// Roots in the order of the type ids.
    roots: Vec<NodeId>,
}

static GRAPH: LazyLock<Graph> = LazyLock::new(build);

/// The shared graph, built on first use.
pub fn graph() -> &'static Graph {
    &GRAPH
}

impl Graph {
    /// All nodes.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The node of a type.
    pub fn node(&self, id: TypeId) -> NodeId {
        self.roots[usize::from(id.0)]
    }

    /// The node of a kind.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<NodeId> {
        types().kind(group, version, kind).map(|id| self.node(id))
    }
}

fn build() -> Graph {
    let mut builder = Builder::default();
    builder.roots = types().iter().map(|_| builder.schema.reserve()).collect();
    for (id, one) in types().iter() {
        let node = builder.object(one, is_atomic(one.attributes));
        builder.schema.set(builder.roots[usize::from(id.0)], Node::Object(node));
    }
    Graph { schema: builder.schema, roots: builder.roots }
}

fn is_atomic(attributes: Attributes) -> bool {
    attributes.map_type() == Some("atomic")
}

/// Identity of nodes that are not struct types: equal keys share a node.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Scalar(&'static str),
    Any,
    Raw,
    List(NodeId, Option<&'static str>, Box<[&'static str]>),
    Map(NodeId, bool),
}

#[derive(Default)]
struct Builder {
    schema: Schema,
    roots: Vec<NodeId>,
    shared: HashMap<Key, NodeId>,
}

impl Builder {
    fn object(&mut self, one: &Type, atomic: bool) -> ObjectNode {
        let fields = one.fields.iter().map(|field| self.field(field)).collect();
        let mut object = ObjectNode::new(fields);
        object.atomic = atomic;
        object.type_name = one.name;
        object
    }

    fn field(&mut self, field: &Field) -> schema::Field {
        let mut node = schema::Field::new(field.name, self.shape(field));
        node.required = field.required;
        node.default = field.attributes.default_json().map(|text| {
            serde_json::from_str(text).expect("the generator writes defaults as JSON without blanks")
        });
        // Apply fills in the keys of list items from their defaults, and a field with a default is present before any
        // manager has set it.
        if field.zero_default {
            node.default = zero(field.shape);
        }
        node.written_empty = !field.omit_empty;
        let strategies = field.attributes.patch_strategy().unwrap_or_default();
        node.patch = PatchStrategy {
            merge: strategies.split(',').any(|one| one == "merge"),
            merge_key: field.attributes.patch_merge_key().map(Into::into),
            retain_keys: strategies.split(',').any(|one| one == "retainKeys"),
            replace: strategies.split(',').any(|one| one == "replace"),
        };
        node
    }

    fn shape(&mut self, field: &Field) -> NodeId {
        match field.shape {
            Shape::One(Item::Struct(id)) if is_atomic(field.attributes) => {
                let object = self.object(types().get(id), true);
                self.schema.add(Node::Object(object))
            }
            Shape::One(Item::Struct(id))
                if field.attributes.map_type() == Some("granular")
                    && is_atomic(types().get(id).attributes) =>
            {
                let object = self.object(types().get(id), false);
                self.schema.add(Node::Object(object))
            }
            Shape::One(Item::Single(Single::Strings)) => {
                let text = self.single(Single::String);
                self.list(text, field.attributes)
            }
            Shape::One(item) => self.item(item),
            Shape::List(item) => {
                let item = self.item(item);
                self.list(item, field.attributes)
            }
            Shape::Map(item) => {
                let values = self.item(item);
                let atomic = is_atomic(field.attributes);
                let mut map = ObjectNode::map_of(values);
                map.atomic = atomic;
                self.shared(Key::Map(values, atomic), || Node::Object(map))
            }
        }
    }

    fn list(&mut self, item: NodeId, attributes: Attributes) -> NodeId {
        let keys: Box<[&str]> = attributes.list_map_keys().collect();
        let merge = match attributes.list_type() {
            Some("set") => ListMerge::Set,
            Some("map") => ListMerge::Map(keys.iter().copied().map(Into::into).collect()),
            _ => ListMerge::Atomic,
        };
        let list = move || Node::List(ListNode { item, merge });
        self.shared(Key::List(item, attributes.list_type(), keys), list)
    }

    fn item(&mut self, item: Item) -> NodeId {
        match item {
            Item::Struct(id) => self.roots[usize::from(id.0)],
            Item::Single(single) => self.single(single),
        }
    }

    fn single(&mut self, single: Single) -> NodeId {
        let scalar = match single {
            Single::String => Scalar::String,
            Single::Bytes => Scalar::Bytes,
            Single::Int32 => Scalar::Int32,
            Single::Int64 => Scalar::Int64,
            Single::Double => Scalar::Double,
            Single::Boolean => Scalar::Boolean,
            Single::IntOrString => Scalar::IntOrString,
            Single::Quantity => Scalar::Quantity,
            Single::Time => Scalar::Time,
            Single::MicroTime => Scalar::MicroTime,
            Single::Strings => {
                let text = self.single(Single::String);
                return self.list(text, Attributes::default());
            }
            Single::RawExtension => return self.shared(Key::Raw, || Node::Raw),
            Single::FieldsV1
            | Single::Json
            | Single::SchemaOrArray
            | Single::SchemaOrBool
            | Single::SchemaOrStringArray
            | Single::Patch => return self.shared(Key::Any, || Node::Any),
        };
        self.shared(Key::Scalar(scalar_name(scalar)), || Node::Scalar(scalar))
    }

    fn shared(&mut self, key: Key, node: impl FnOnce() -> Node) -> NodeId {
        *self.shared.entry(key).or_insert_with(|| self.schema.add(node()))
    }
}

fn scalar_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::String => "string",
        Scalar::Bytes => "bytes",
        Scalar::Int32 => "int32",
        Scalar::Int64 => "int64",
        Scalar::Double => "double",
        Scalar::Boolean => "boolean",
        Scalar::IntOrString => "int-or-string",
        Scalar::Quantity => "quantity",
        Scalar::Time => "time",
        Scalar::MicroTime => "micro-time",
        Scalar::Untyped => "untyped",
    }
}

fn zero(shape: Shape) -> Option<Value> {
    match shape {
        Shape::One(Item::Single(Single::String)) => Some(Value::from("")),
        Shape::One(Item::Single(Single::Int32 | Single::Int64)) => Some(Value::from(0)),
        Shape::One(Item::Single(Single::Boolean)) => Some(Value::from(false)),
        Shape::One(Item::Struct(_)) => Some(Value::Object(Map::new())),
        _ => None,
    }
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
