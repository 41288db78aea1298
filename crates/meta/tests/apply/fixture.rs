//! A kind similar to Deployment, and one object of it with a sequence of writes.

use coracle_meta::apply::typed::Type;
use coracle_meta::apply::{
    Applied, ApplyError, FieldFilter, FieldManager, FieldSet, ManagedFields, OneVersion, Operation,
    ResetFields, Writer,
};
use coracle_meta::schema::{Field, ListMerge, ListNode, Node, NodeId, ObjectNode, Rest, Scalar, Schema};
use serde_json::{Value, json};

pub(crate) const VERSION: &str = "apps/v1";

/// A schema, and the type of its objects.
pub(crate) struct Kind {
    pub(crate) schema: Schema,
    pub(crate) object: NodeId,
}

struct Builder(Schema);

impl Builder {
    fn scalar(&mut self, scalar: Scalar) -> NodeId {
        self.0.add(Node::Scalar(scalar))
    }

    fn object(&mut self, fields: &[(&str, NodeId)]) -> NodeId {
        let fields = fields.iter().map(|(name, node)| Field::new(*name, *node)).collect();
        self.0.add(Node::Object(ObjectNode::new(fields)))
    }

    fn atomic(&mut self, fields: &[(&str, NodeId)]) -> NodeId {
        let id = self.object(fields);
        let mut node = self.0.object(id).unwrap().clone();
        node.atomic = true;
        self.0.add(Node::Object(node))
    }

    fn map(&mut self, values: NodeId) -> NodeId {
        self.0.add(Node::Object(ObjectNode::map_of(values)))
    }

    fn list(&mut self, item: NodeId, merge: ListMerge) -> NodeId {
        self.0.add(Node::List(ListNode { item, merge }))
    }

    fn keyed(&mut self, item: NodeId, keys: &[&str]) -> NodeId {
        self.list(item, ListMerge::Map(keys.iter().map(|key| Box::from(*key)).collect()))
    }

    fn port(&mut self, text: NodeId, number: NodeId) -> NodeId {
        let mut protocol = Field::new("protocol", text);
        protocol.default = Some(json!("TCP"));
        let fields = vec![Field::new("containerPort", number), protocol, Field::new("name", text)];
        self.0.add(Node::Object(ObjectNode::new(fields)))
    }

    fn container(&mut self, text: NodeId, number: NodeId) -> NodeId {
        let port = self.port(text, number);
        let ports = self.keyed(port, &["containerPort", "protocol"]);
        let env = self.object(&[("name", text), ("value", text)]);
        let env = self.keyed(env, &["name"]);
        let args = self.list(text, ListMerge::Atomic);
        let quantity = self.scalar(Scalar::Quantity);
        let limits = self.map(quantity);
        let resources = self.object(&[("limits", limits)]);
        self.object(&[
            ("name", text),
            ("image", text),
            ("args", args),
            ("env", env),
            ("ports", ports),
            ("resources", resources),
        ])
    }

    fn spec(&mut self, text: NodeId, number: NodeId) -> NodeId {
        let labels = self.map(text);
        let selector = self.atomic(&[("matchLabels", labels)]);
        let container = self.container(text, number);
        let containers = self.keyed(container, &["name"]);
        let template = self.object(&[("labels", labels), ("containers", containers)]);
        let tags = self.list(text, ListMerge::Set);
        let mut free = ObjectNode::new(vec![Field::new("known", text)]);
        free.rest = Rest::Preserved;
        let free = self.0.add(Node::Object(free));
        let any = self.0.add(Node::Any);
        let boolean = self.scalar(Scalar::Boolean);
        self.object(&[
            ("replicas", number),
            ("paused", boolean),
            ("selector", selector),
            ("template", template),
            ("nodeSelector", labels),
            ("tags", tags),
            ("free", free),
            ("any", any),
        ])
    }

    fn metadata(&mut self, text: NodeId, number: NodeId) -> NodeId {
        let labels = self.map(text);
        let any = self.0.add(Node::Any);
        let managed_fields = self.list(any, ListMerge::Atomic);
        self.object(&[
            ("name", text),
            ("namespace", text),
            ("uid", text),
            ("resourceVersion", text),
            ("generation", number),
            ("labels", labels),
            ("annotations", labels),
            ("managedFields", managed_fields),
        ])
    }
}

impl Kind {
    pub(crate) fn new() -> Self {
        let mut builder = Builder(Schema::new());
        let (text, number) = (builder.scalar(Scalar::String), builder.scalar(Scalar::Int32));
        let condition = builder.object(&[("type", text), ("status", text)]);
        let conditions = builder.keyed(condition, &["type"]);
        let status = builder.object(&[("readyReplicas", number), ("conditions", conditions)]);
        let (metadata, spec) = (builder.metadata(text, number), builder.spec(text, number));
        let object = builder.object(&[
            ("apiVersion", text),
            ("kind", text),
            ("metadata", metadata),
            ("spec", spec),
            ("status", status),
        ]);
        Self { schema: builder.0, object }
    }

    pub(crate) fn object_type(&self) -> Type<'_> {
        Type::new(&self.schema, self.object)
    }

    pub(crate) fn versions(&self) -> OneVersion<'_> {
        OneVersion { schema: &self.schema, node: self.object, api_version: VERSION }
    }
}

/// Creates an object of the kind with these parts.
pub(crate) fn deployment(parts: Value) -> Value {
    let mut object = json!({"apiVersion": VERSION, "kind": "Deployment", "metadata": {"name": "web"}});
    for (name, part) in parts.as_object().unwrap() {
        match name.as_str() {
            "metadata" => {
                for (name, field) in part.as_object().unwrap() {
                    object["metadata"][name] = field.clone();
                }
            }
            _ => object[name] = part.clone(),
        }
    }
    object
}

/// An object and its writes; the clock advances by one second per write.
pub(crate) struct ObjectHistory {
    pub(crate) kind: Kind,
    pub(crate) live: Option<Value>,
    pub(crate) reset_fields: ResetFields,
    seconds: u32,
}

impl ObjectHistory {
    pub(crate) fn new() -> Self {
        Self { kind: Kind::new(), live: None, reset_fields: ResetFields::default(), seconds: 0 }
    }

    /// Sets the reset fields of the kind.
    pub(crate) fn reset(&mut self, paths: &[&[&str]]) {
        let filter = FieldFilter::Except(FieldSet::of_fields(paths));
        self.reset_fields = ResetFields::default().with(VERSION, filter);
    }

    fn write<T>(
        &mut self,
        manager: &str,
        subresource: &str,
        write: impl FnOnce(&FieldManager<'_>, Option<&Value>, &Writer<'_>) -> Result<T, ApplyError>,
    ) -> Result<T, ApplyError> {
        self.seconds += 1;
        let now = format!("2024-01-01T00:{:02}:{:02}Z", self.seconds / 60, self.seconds % 60);
        let field_manager = FieldManager {
            versions: &self.kind.versions(),
            api_version: VERSION,
            kind: "Deployment",
            subresource,
            reset_fields: &self.reset_fields,
            initial: None,
        };
        write(&field_manager, self.live.as_ref(), &Writer { manager, now: &now })
    }

    fn store(&mut self, mut object: Value) {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("uid".to_owned(), json!("1"));
        }
        self.live = Some(object);
    }

    /// Writes an object of any shape.
    pub(crate) fn try_put(&mut self, object: Value) -> Result<Value, ApplyError> {
        self.write("m", "", |fields, live, writer| fields.update(live, object, writer))
    }

    /// Writes an object by create, update or patch.
    pub(crate) fn put(&mut self, manager: &str, object: Value) {
        self.put_to("", manager, object);
    }

    pub(crate) fn put_to(&mut self, subresource: &str, manager: &str, mut object: Value) {
        if self.live.is_some() {
            object["metadata"]["uid"] = json!("1");
        }
        let new =
            self.write(manager, subresource, |fields, live, writer| fields.update(live, object, writer));
        self.store(new.unwrap());
    }

    /// Modifies the live object and writes it back, as a client after a read.
    pub(crate) fn edit(&mut self, manager: &str, edit: impl FnOnce(&mut Value)) {
        let mut object = self.live.clone().unwrap();
        edit(&mut object);
        self.put(manager, object);
    }

    pub(crate) fn apply(&mut self, manager: &str, parts: Value) -> Result<bool, ApplyError> {
        self.apply_config(manager, &deployment(parts), false)
    }

    pub(crate) fn force(&mut self, manager: &str, parts: Value) {
        self.apply_config(manager, &deployment(parts), true).unwrap();
    }

    pub(crate) fn apply_config(
        &mut self,
        manager: &str,
        config: &Value,
        force: bool,
    ) -> Result<bool, ApplyError> {
        let applied: Applied =
            self.write(manager, "", |fields, live, writer| fields.apply(live, config, writer, force))?;
        self.store(applied.object);
        Ok(applied.changed)
    }

    pub(crate) fn live(&self) -> &Value {
        self.live.as_ref().unwrap()
    }

    pub(crate) fn managed(&self) -> ManagedFields {
        ManagedFields::decode(self.live()["metadata"].get("managedFields")).unwrap()
    }

    /// Returns managers, operations and times of the entries, in order.
    pub(crate) fn entries(&self) -> Vec<String> {
        let entries = self.live()["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or("-").to_owned();
        let describe = |entry| [text(entry, "manager"), text(entry, "operation"), text(entry, "subresource")];
        entries.iter().map(|entry| describe(entry).join(" ").replace(" -", "")).collect()
    }

    /// Returns the fields of a manager as `fieldsV1`.
    pub(crate) fn owned(&self, manager: &str, operation: Operation) -> String {
        let managed = self.managed();
        let mut entries = managed.entries.iter();
        let entry = entries.find(|entry| entry.id.manager == manager && entry.id.operation == operation);
        entry.map_or("{}".to_owned(), |entry| entry.fields().to_json())
    }
}
