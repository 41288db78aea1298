//! A schema with parts of Pod and Deployment.

use coracle_meta::schema::{Field, ListMerge, ListNode, Node, NodeId, ObjectNode, Scalar, Schema};

/// Returns the schema, and the type of its objects.
pub(crate) fn schema() -> (Schema, NodeId) {
    let mut schema = Schema::new();
    let text = schema.add(Node::Scalar(Scalar::String));
    let number = schema.add(Node::Scalar(Scalar::Int32));
    let any = schema.add(Node::Any);
    let texts = list(&mut schema, text);
    let labels = schema.add(Node::Object(ObjectNode::map_of(text)));
    let port = object(&mut schema, vec![Field::new("containerPort", number), Field::new("protocol", text)]);
    let ports = list(&mut schema, port);
    let container = object(
        &mut schema,
        vec![
            Field::new("name", text),
            Field::new("image", text),
            Field::new("args", texts),
            merged("ports", ports, Some("containerPort"), false),
        ],
    );
    let containers = list(&mut schema, container);
    let empty_dir = object(&mut schema, vec![Field::new("medium", text)]);
    let host_path = object(&mut schema, vec![Field::new("path", text)]);
    let volume = object(
        &mut schema,
        vec![Field::new("name", text), Field::new("emptyDir", empty_dir), Field::new("hostPath", host_path)],
    );
    let volumes = list(&mut schema, volume);
    let toleration = object(&mut schema, vec![Field::new("key", text), Field::new("value", text)]);
    let tolerations = list(&mut schema, toleration);
    let rolling = object(&mut schema, vec![Field::new("max", number)]);
    let strategy = object(&mut schema, vec![Field::new("type", text), Field::new("rolling", rolling)]);
    let mut retaining = Field::new("strategy", strategy);
    retaining.patch.retain_keys = true;
    let pod = object(
        &mut schema,
        vec![
            Field::new("name", text),
            Field::new("replicas", number),
            Field::new("labels", labels),
            Field::new("free", any),
            Field::new("tolerations", tolerations),
            retaining,
            merged("finalizers", texts, None, false),
            merged("containers", containers, Some("name"), false),
            merged("volumes", volumes, Some("name"), true),
        ],
    );
    (schema, pod)
}

fn list(schema: &mut Schema, item: NodeId) -> NodeId {
    schema.add(Node::List(ListNode { item, merge: ListMerge::Atomic }))
}

fn object(schema: &mut Schema, fields: Vec<Field>) -> NodeId {
    schema.add(Node::Object(ObjectNode::new(fields)))
}

fn merged(name: &str, node: NodeId, key: Option<&str>, retain_keys: bool) -> Field {
    let mut field = Field::new(name, node);
    field.patch.merge = true;
    field.patch.merge_key = key.map(Into::into);
    field.patch.retain_keys = retain_keys;
    field
}
