//! Conversion to the schema type that patches and apply use for all kinds.

use coracle_meta::schema::{
    Field, ListMerge, ListNode, Node, NodeId, ObjectNode, Rest, Scalar, Schema as MetaSchema,
};

use crate::Structural;
use crate::structural::{Additional, ListType, Schema, Type};

impl Structural {
    /// Converts the schema of the objects; `metadata` is the type of object metadata.
    ///
    /// Ignores what the schema declares for `apiVersion`, `kind` and `metadata` of complete
    /// objects: these are the same for all kinds.
    pub fn to_schema(&self, metadata: (&MetaSchema, NodeId)) -> (MetaSchema, NodeId) {
        let mut schema = MetaSchema::new();
        let metadata = schema.import(metadata.0, metadata.1);
        let text = schema.add(Node::Scalar(Scalar::String));
        let mut build = Build { schema, metadata, text };
        let root = build.object(self.root(), false, true);
        let root = build.schema.add(Node::Object(root));
        (build.schema, root)
    }
}

struct Build {
    schema: MetaSchema,
    metadata: NodeId,
    text: NodeId,
}

impl Build {
    /// `preserves` is inherited: below a node that preserves unknown fields, apply does not check
    /// whether a field is declared.
    fn node(&mut self, schema: Schema<'_>, preserves: bool) -> NodeId {
        let preserves = preserves || schema.preserves_unknown();
        let node = match schema.ty() {
            Type::Object => Node::Object(self.object(schema, preserves, false)),
            Type::Array => Node::List(self.list(schema, preserves)),
            Type::Unspecified if schema.properties().len() > 0 || schema.additional().is_specified() => {
                Node::Object(self.object(schema, preserves, false))
            }
            Type::Unspecified if schema.items().is_some() => Node::List(self.list(schema, preserves)),
            Type::Unspecified => Node::Any,
            Type::String if matches!(schema.format(), "" | "byte") => return self.text,
            Type::Integer => Node::Scalar(Scalar::Int64),
            Type::Number => Node::Scalar(Scalar::Double),
            Type::Boolean => Node::Scalar(Scalar::Boolean),
            Type::String | Type::Other => Node::Scalar(Scalar::Untyped),
        };
        self.schema.add(node)
    }

    fn object(&mut self, schema: Schema<'_>, preserves: bool, is_root: bool) -> ObjectNode {
        let preserves = preserves || schema.preserves_unknown();
        let is_whole = is_root || schema.is_embedded_resource();
        let mut fields = Vec::new();
        for (name, property) in schema.properties() {
            if is_whole && crate::prune::is_object_field(name) {
                continue;
            }
            let mut field = Field::new(name, self.node(property, preserves));
            field.nullable = property.is_nullable();
            field.default = property.default().cloned();
            fields.push(field);
        }
        if is_whole {
            fields.extend(
                [("apiVersion", self.text), ("kind", self.text), ("metadata", self.metadata)]
                    .map(|(name, node)| Field::new(name, node)),
            );
        }
        let is_bare = fields.is_empty();
        let mut object = ObjectNode::new(fields);
        object.rest = match schema.additional() {
            Additional::Schema(values) => Rest::Map(self.node(values, preserves)),
            Additional::Allowed => Rest::Preserved,
            Additional::Unspecified if preserves || is_bare => Rest::Preserved,
            Additional::Unspecified | Additional::Forbidden => Rest::Unknown,
        };
        object.atomic = schema.is_atomic_map();
        object.embedded_resource = is_whole;
        object
    }

    fn list(&mut self, schema: Schema<'_>, preserves: bool) -> ListNode {
        let item = match schema.items() {
            Some(items) => self.node(items, preserves),
            None => self.schema.add(Node::Any),
        };
        let merge = match schema.list_type() {
            Some(ListType::Set) => ListMerge::Set,
            Some(ListType::Map) => ListMerge::Map(schema.list_map_keys().into()),
            Some(ListType::Atomic) | None => ListMerge::Atomic,
        };
        ListNode { item, merge }
    }
}

#[cfg(test)]
mod tests {
    use coracle_meta::apply::typed::{Strictness, Type as Typed};
    use serde_json::json;

    use super::*;

    #[test]
    fn converted_schema_has_list_keys_and_open_objects() {
        let schema = json!({"type": "object", "properties": {
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                "items": {"type": "object", "properties": {"port": {"x-kubernetes-int-or-string": true}}}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"inner": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        }});
        let mut meta_schema = MetaSchema::new();
        let metadata = meta_schema.add(Node::Object(ObjectNode::default()));
        let (schema, root) = Structural::parse(&schema).unwrap().to_schema((&meta_schema, metadata));
        let ty = Typed::new(&schema, root);
        let good = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x"},
            "ports": [{"port": 1}, {"port": "http"}], "open": {"x": 1, "inner": {"a": "1", "b": 2}}});
        assert_eq!(ty.validate(&good, Strictness::Applied), Ok(()));
        for bad in [json!({"ports": [{"port": 1}, {"port": 1}]}), json!({"other": 1})] {
            assert!(ty.validate(&bad, Strictness::Applied).is_err(), "{bad}");
        }
    }
}
