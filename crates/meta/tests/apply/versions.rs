//! Tests of ownership across versions of a kind and changes of its schema.

use coracle_meta::apply::typed::Type;
use coracle_meta::apply::{ApplyError, ConversionError, FieldManager, ResetFields, Versions, Writer};
use coracle_meta::schema::{Field, Node, NodeId, ObjectNode, Scalar, Schema};
use serde_json::{Value, json};

use crate::fixture::{ObjectHistory, deployment};

/// A kind whose field `size` is called `scale` in its second version.
struct Renamed {
    schema: Schema,
    first: NodeId,
    second: NodeId,
}

impl Renamed {
    fn new() -> Self {
        let mut schema = Schema::new();
        let (text, number) =
            (schema.add(Node::Scalar(Scalar::String)), schema.add(Node::Scalar(Scalar::Int64)));
        let any = schema.add(Node::Any);
        let mut version = |name: &str| {
            let fields =
                [("apiVersion", text), ("kind", text), ("metadata", any), (name, number), ("other", number)];
            let fields = fields.iter().map(|(name, node)| Field::new(*name, *node)).collect();
            schema.add(Node::Object(ObjectNode::new(fields)))
        };
        let (first, second) = (version("size"), version("scale"));
        Self { schema, first, second }
    }

    fn apply(
        &self,
        live: Option<&Value>,
        config: Value,
        manager: &str,
        force: bool,
    ) -> Result<Value, ApplyError> {
        let api_version = config["apiVersion"].as_str().unwrap().to_owned();
        let live = live.map(|live| self.convert(live, "", &api_version).unwrap());
        let field_manager = FieldManager {
            versions: self,
            api_version: &api_version,
            kind: "Thing",
            subresource: "",
            reset_fields: ResetFields::NONE,
            initial: None,
        };
        let writer = Writer { manager, now: "2024-01-01T00:00:00Z" };
        field_manager.apply(live.as_ref(), &config, &writer, force).map(|applied| applied.object)
    }
}

impl Versions for Renamed {
    fn object_type(&self, api_version: &str) -> Option<Type<'_>> {
        match api_version {
            "v1" => Some(Type::new(&self.schema, self.first)),
            "v2" => Some(Type::new(&self.schema, self.second)),
            _ => None,
        }
    }

    fn convert(&self, object: &Value, _from: &str, to: &str) -> Result<Value, ConversionError> {
        let mut object = object.clone();
        object["apiVersion"] = json!(to);
        let (old, new) = if to == "v1" { ("scale", "size") } else { ("size", "scale") };
        if let Some(value) = object.as_object_mut().unwrap().remove(old) {
            object[new] = value;
        }
        Ok(object)
    }
}

fn thing(api_version: &str, field: &str, value: u32) -> Value {
    json!({"apiVersion": api_version, "kind": "Thing", "metadata": {"name": "t"}, field: value})
}

#[test]
fn fields_owned_at_other_version_are_found_by_conversion() {
    let kind = Renamed::new();
    let live = kind.apply(None, thing("v1", "size", 1), "a", false).unwrap();
    let error = kind.apply(Some(&live), thing("v2", "scale", 2), "b", false).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"a\": .size");
    let live = kind.apply(Some(&live), thing("v2", "scale", 1), "b", false).unwrap();
    let owned = |at: usize| live["metadata"]["managedFields"][at]["fieldsV1"].clone();
    assert_eq!(live["metadata"]["managedFields"].as_array().unwrap().len(), 2);
    assert_eq!(
        [owned(0), owned(1)],
        [json!({"f:scale": {}}), json!({"f:size": {}})],
        "an entry without time is first"
    );
    let live = kind.apply(Some(&live), thing("v1", "other", 1), "a", false).unwrap();
    assert_eq!(live["size"], 1, "the other manager still owns it, in its own version");
    let live = kind.apply(Some(&live), thing("v1", "other", 1), "b", false).unwrap();
    assert_eq!(live.get("size"), None, "the manager that applied it at another version removes it");
}

#[test]
fn entries_of_removed_versions_are_dropped() {
    let kind = Renamed::new();
    let mut live = kind.apply(None, thing("v1", "size", 1), "a", false).unwrap();
    live["metadata"]["managedFields"][0]["apiVersion"] = json!("v0");
    let live = kind.apply(Some(&live), thing("v1", "size", 2), "b", false).unwrap();
    let managers = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.iter().map(|entry| entry["manager"].clone()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn value_that_became_atomic_is_owned_as_whole() {
    let mut history = ObjectHistory::new();
    history.apply("a", json!({"spec": {"selector": {"matchLabels": {"x": "1"}}}})).unwrap();
    // The entry of a time when the selector was merged by its fields.
    history.live.as_mut().unwrap()["metadata"]["managedFields"][0]["fieldsV1"] =
        json!({"f:spec": {"f:selector": {"f:matchLabels": {"f:x": {}}}}});
    let error = history.apply("b", json!({"spec": {"selector": {}}})).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"a\": .spec.selector");
    history.edit("c", |object| object["spec"]["paused"] = json!(true));
    assert_eq!(history.owned("a", coracle_meta::apply::Operation::Apply), r#"{"f:spec":{"f:selector":{}}}"#);
}

#[test]
fn write_at_unknown_version_is_not_tracked() {
    let kind = Renamed::new();
    let error = kind.apply(None, thing("v3", "size", 1), "a", false).unwrap_err();
    assert_eq!(error.to_string(), "no type of version v3");
    let history = ObjectHistory::new();
    let field_manager = FieldManager {
        versions: &history.kind.versions(),
        api_version: "apps/v9",
        kind: "Deployment",
        subresource: "",
        reset_fields: ResetFields::NONE,
        initial: None,
    };
    let writer = Writer { manager: "m", now: "2024-01-01T00:00:00Z" };
    let object = deployment(json!({"metadata": {"managedFields": [{"manager": "x"}]}}));
    let let_through = field_manager.update_no_errors(None, object, &writer);
    assert_eq!(let_through["metadata"], json!({"name": "web"}));
}
