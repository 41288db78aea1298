//! OpenAPI v2, converted from v3 documents.
//!
//! v2 has a single document, no defaults, plain references where v3 wraps them, and media types beside the schemas.
//! Parameters that many operations have are shared.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher as _};

use serde_json::{Map, Value, json};

use super::{RELEASE, bearer_token, object};

const KINDS: &str = "x-kubernetes-group-version-kind";
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// Media types in the order in which v2 lists them.
const MEDIA_TYPES: [&str; 10] = [
    "text/plain",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Parameters that kubectl before 1.27 looks for in the operation only, so they are never shared.
const NEVER_SHARED: [&str; 2] = ["dryRun", "fieldValidation"];

/// Merged v3 documents.
#[derive(Default)]
pub(super) struct Merged {
    paths: Map<String, Value>,
    definitions: Map<String, Value>,
    /// Shared parameters by reference name.
    parameters: BTreeMap<String, Value>,
}

impl Merged {
    /// Merges the content of a document.
    pub(super) fn add(&mut self, mut document: Value) {
        let mut part = |pointer: &str| match document.pointer_mut(pointer).map(Value::take) {
            Some(Value::Object(found)) => found,
            _ => Map::new(),
        };
        let (paths, schemas) = (part("/paths"), part("/components/schemas"));
        for (path, item) in paths {
            let item = self.path_item(item);
            self.paths.insert(path, item);
        }
        for (name, mut schema) in schemas {
            match self.definitions.get_mut(&name) {
                Some(known) => add_kinds(known, &schema),
                None => {
                    convert(&mut schema);
                    self.definitions.insert(name, schema);
                }
            }
        }
    }

    /// Adds a definition that has the form of v2 already.
    pub(super) fn define(&mut self, name: &str, definition: &Value) {
        self.definitions.insert(name.to_owned(), definition.clone());
    }

    /// Builds the document.
    pub(super) fn finish(self) -> Value {
        json!({
            "swagger": "2.0",
            "info": { "title": "Kubernetes", "version": RELEASE },
            "paths": self.paths,
            "definitions": self.definitions,
            "parameters": Map::from_iter(self.parameters),
            "securityDefinitions": { "BearerToken": bearer_token() },
            "security": [{ "BearerToken": [] }],
        })
    }

    fn path_item(&mut self, item: Value) -> Value {
        let Value::Object(mut item) = item else { return item };
        let shared = taken(item.remove("parameters"));
        for method in METHODS {
            let Some(mut operation) = item.remove(method) else { continue };
            let mut parameters = taken(operation.get_mut("parameters").map(Value::take));
            parameters.extend(body(&operation));
            parameters.sort_by_key(order);
            let parameters = self.share(parameters);
            item.insert(method.to_owned(), convert_operation(operation, parameters));
        }
        let shared = self.share(shared);
        if !shared.is_empty() {
            item.insert("parameters".into(), shared.into());
        }
        Value::Object(item)
    }

    /// The parameters, as references where other operations have the same.
    fn share(&mut self, parameters: Vec<Value>) -> Vec<Value> {
        let share = |parameter: Value| {
            if !is_shared(&parameter) {
                return parameter;
            }
            let name = shared_name(&parameter);
            let reference = json!({ "$ref": format!("#/parameters/{name}") });
            self.parameters.insert(name, parameter);
            reference
        };
        parameters.into_iter().map(share).collect()
    }
}

/// Parameters in the form of v2: except for bodies, the schema is inlined into the parameter.
fn taken(parameters: Option<Value>) -> Vec<Value> {
    let Some(Value::Array(parameters)) = parameters else { return Vec::new() };
    let flat = |mut parameter: Value| {
        let schema = parameter.as_object_mut().and_then(|fields| fields.remove("schema"));
        if let (Some(Value::Object(schema)), Some(fields)) = (schema, parameter.as_object_mut()) {
            fields.extend(schema);
        }
        parameter
    };
    parameters.into_iter().map(flat).collect()
}

/// The body of an operation as a parameter.
fn body(operation: &Value) -> Option<Value> {
    let body = operation.get("requestBody")?;
    let mut schema = body["content"].as_object()?.values().next()?["schema"].clone();
    convert(&mut schema);
    Some(Value::Object(object([
        ("name", Some("body".into())),
        ("in", Some("body".into())),
        ("required", body.get("required").cloned()),
        ("schema", Some(schema)),
    ])))
}

fn order(parameter: &Value) -> (String, String) {
    (parameter["name"].to_string(), parameter["in"].to_string())
}

/// Whether several operations may share the parameter: the description of an object's name contains its kind, and a
/// body mostly has the schema of its kind.
fn is_shared(parameter: &Value) -> bool {
    let name = parameter["name"].as_str().unwrap_or_default();
    match parameter["in"].as_str() {
        Some("body") => {
            let target = parameter["schema"]["$ref"].as_str().unwrap_or_default();
            target.starts_with("#/definitions/io.k8s.apimachinery")
        }
        Some("query") if NEVER_SHARED.contains(&name) => false,
        _ => name != "name",
    }
}

/// The name of a shared parameter, with a hash because several have the same name.
fn shared_name(parameter: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(parameter.to_string().as_bytes());
    let hash = hasher.finish() & 0xffff_ffff;
    format!("{}-{hash:08x}", parameter["name"].as_str().unwrap_or_default())
}

fn convert_operation(mut operation: Value, parameters: Vec<Value>) -> Value {
    let body_types = operation.pointer("/requestBody/content").map(media_types);
    let answer = operation.pointer("/responses/200/content");
    let produces = answer.map(media_types).unwrap_or_default();
    // Operations without a kind list their response media types as request media types too.
    let is_about_kind = operation.get("x-kubernetes-action").is_some();
    let default = if is_about_kind { vec!["*/*".to_owned()] } else { produces.clone() };
    let Some(fields) = operation.as_object_mut() else { return operation };
    fields.remove("requestBody");
    fields.remove("parameters");
    if !parameters.is_empty() {
        fields.insert("parameters".into(), parameters.into());
    }
    fields.insert("consumes".into(), body_types.unwrap_or(default).into());
    fields.insert("produces".into(), produces.into());
    fields.insert("schemes".into(), json!(["https"]));
    for response in fields["responses"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        let content = response.as_object_mut().and_then(|response| response.remove("content"));
        if let Some(media) = content.as_ref().and_then(Value::as_object).and_then(|all| all.values().next()) {
            let mut schema = media["schema"].clone();
            convert(&mut schema);
            response["schema"] = schema;
        }
    }
    operation
}

fn media_types(content: &Value) -> Vec<String> {
    let mut found: Vec<String> = content.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    found.sort_by_key(|media| MEDIA_TYPES.iter().position(|known| known == media));
    found
}

/// A schema in the form of v2.
fn convert(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("default");
    // v2 describes IntOrString as a string.
    if fields.remove("oneOf").is_some() {
        fields.insert("type".into(), "string".into());
    }
    if let Some(Value::Array(mut wrapped)) = fields.remove("allOf")
        && let Some(Value::Object(inner)) = wrapped.pop()
    {
        fields.extend(inner);
    }
    if let Some(Value::String(target)) = fields.get_mut("$ref") {
        *target = target.replacen("#/components/schemas/", "#/definitions/", 1);
    }
    for inner in ["items", "additionalProperties"] {
        fields.get_mut(inner).into_iter().for_each(convert);
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(convert);
    }
}

/// Merges the kinds of types that are part of every version, of which each document lists one more.
fn add_kinds(known: &mut Value, again: &Value) {
    let (Some(known), Some(again)) =
        (known.get_mut(KINDS).and_then(Value::as_array_mut), again.get(KINDS).and_then(Value::as_array))
    else {
        return;
    };
    for kind in again {
        if !known.contains(kind) {
            known.push(kind.clone());
        }
    }
}
