//! Publishing of custom kinds in OpenAPI documents.
//!
//! Uses the schema as written by the user, because the compact form has no descriptions. OpenAPI v2
//! cannot express everything, and kubectl supports even less: constructs that kubectl would
//! misinterpret are omitted, as in kube-apiserver.

use serde_json::{Map, Value, json};

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// OpenAPI version of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenApi {
    /// One document for all groups.
    V2,
    /// One document per group and version.
    V3,
}

/// A version of a custom kind.
#[derive(Clone, Copy, Debug)]
pub struct CustomKind<'a> {
    /// The API group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind, such as `CronTab`.
    pub kind: &'a str,
    /// The list kind, such as `CronTabList`.
    pub list_kind: &'a str,
    /// The plural name, such as `crontabs`.
    pub plural: &'a str,
    /// JSON paths of the selectable fields.
    pub selectable_fields: &'a [&'a str],
}

/// Returns the name of a kind's definition: reversed group, version and kind.
pub fn definition_name(group: &str, version: &str, kind: &str) -> String {
    let parts: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", parts.join("."))
}

impl CustomKind<'_> {
    /// Returns the definition of the kind's objects, to be published as [`definition_name`].
    /// Without a schema it accepts any object.
    pub fn definition(&self, schema: Option<&Value>, open_api: OpenApi) -> Value {
        let preserves = |schema: &&Value| is_true(schema, "x-kubernetes-preserve-unknown-fields");
        let mut definition = match schema {
            // Omit the rest of the schema: kubectl would reject all fields that it does not
            // declare.
            Some(schema) if open_api == OpenApi::V2 && preserves(&schema) => json!({"type": "object"}),
            None => json!({"type": "object"}),
            Some(schema) => {
                let mut definition = Publication { open_api }.schema(schema);
                let properties = object(&mut definition, "properties");
                properties.insert("metadata".into(), open_api.reference(OBJECT_META, METADATA));
                insert_type(properties, API_VERSION, KIND);
                Value::Object(definition)
            }
        };
        self.add_extensions(&mut definition, self.kind);
        definition
    }

    /// Returns the definition of the kind's list.
    pub fn list_definition(&self, open_api: OpenApi) -> Value {
        let item = definition_name(self.group, self.version, self.kind);
        let mut properties = Map::new();
        properties.insert(
            "items".into(),
            json!({
                "description": format!("List of {}. More info: {CONVENTIONS}", self.plural),
                "type": "array",
                "items": {"$ref": format!("{}{item}", open_api.prefix())},
            }),
        );
        properties.insert("metadata".into(), open_api.reference(LIST_META, LIST_METADATA));
        insert_type(&mut properties, API_VERSION, KIND);
        let mut definition = json!({
            "description": format!("{} is a list of {}", self.list_kind, self.kind),
            "type": "object",
            "required": ["items"],
            "properties": properties,
        });
        self.add_extensions(&mut definition, self.list_kind);
        definition
    }

    fn add_extensions(&self, definition: &mut Value, kind: &str) {
        definition["x-kubernetes-group-version-kind"] =
            json!([{"group": self.group, "kind": kind, "version": self.version}]);
        if !self.selectable_fields.is_empty() {
            let field = |path: &&str| json!({"fieldPath": path.strip_prefix('.').unwrap_or(path)});
            definition["x-kubernetes-selectable-fields"] = self.selectable_fields.iter().map(field).collect();
        }
    }
}

impl OpenApi {
    fn prefix(self) -> &'static str {
        match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        }
    }

    /// In OpenAPI v3 a `$ref` allows no sibling keys.
    fn reference(self, name: &str, description: &str) -> Value {
        let reference = format!("{}{name}", self.prefix());
        match self {
            Self::V2 => json!({"description": description, "$ref": reference}),
            Self::V3 => json!({"description": description, "allOf": [{"$ref": reference}]}),
        }
    }
}

fn insert_type(properties: &mut Map<String, Value>, api_version: &str, kind: &str) {
    for (name, description) in [("apiVersion", api_version), ("kind", kind)] {
        properties.insert(name.to_owned(), json!({"description": description, "type": "string"}));
    }
}

fn is_true(schema: &Value, field: &str) -> bool {
    schema.get(field) == Some(&Value::Bool(true))
}

/// Returns a field of a schema that is an object; creates it if absent.
fn object<'a>(schema: &'a mut Map<String, Value>, field: &str) -> &'a mut Map<String, Value> {
    let part = schema.entry(field).or_insert_with(|| json!({}));
    if !part.is_object() {
        *part = json!({});
    }
    part.as_object_mut().expect("the part was just replaced by an object")
}

/// Schema fields without nested schemas, valid in both versions.
const PLAIN: [&str; 30] = [
    "default",
    "description",
    "enum",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "pattern",
    "required",
    "title",
    "type",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

const JUNCTORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

struct Publication {
    open_api: OpenApi,
}

impl Publication {
    fn schema(&self, schema: &Value) -> Map<String, Value> {
        let mut published = plain(schema);
        let is_v2 = self.open_api == OpenApi::V2;
        if !is_v2 {
            publish_junctors(schema, &mut published);
            if is_true(schema, "x-kubernetes-int-or-string") {
                unfold_int_or_string(&mut published);
            }
        }
        let preserves = is_true(schema, "x-kubernetes-preserve-unknown-fields");
        // In v2, a nullable schema has no type, and a schema without type may have no nested
        // schemas.
        let is_untyped = is_v2 && (preserves || is_true(schema, "nullable"));
        if !is_untyped {
            self.publish_parts(schema, &mut published);
        }
        match schema.get("additionalProperties") {
            Some(values @ Value::Object(_)) => {
                published.insert("additionalProperties".to_owned(), Value::Object(self.schema(values)));
            }
            Some(allowed @ Value::Bool(_)) => {
                published.insert("additionalProperties".to_owned(), allowed.clone());
            }
            _ => {}
        }
        if is_v2 {
            downgrade(schema, preserves, &mut published);
        }
        if is_true(schema, "x-kubernetes-embedded-resource") && !(is_v2 && preserves) {
            self.embed(&mut published);
        }
        published
    }

    fn publish_parts(&self, schema: &Value, published: &mut Map<String, Value>) {
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            published.insert("items".to_owned(), Value::Object(self.schema(items)));
        }
        if let Some(Value::Object(properties)) = schema.get("properties").filter(|all| !is_empty(all)) {
            let properties = properties
                .iter()
                .map(|(name, property)| (name.clone(), Value::Object(self.schema(property))));
            published.insert("properties".to_owned(), Value::Object(properties.collect()));
        }
    }

    /// Adds `apiVersion`, `kind` and `metadata` to the schema of an embedded resource.
    fn embed(&self, published: &mut Map<String, Value>) {
        let properties = object(published, "properties");
        insert_type(properties, EMBEDDED_API_VERSION, EMBEDDED_KIND);
        properties.insert("metadata".into(), self.open_api.reference(OBJECT_META, METADATA));
        let required = published.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(required) = required {
            for name in ["kind", "apiVersion"].map(Value::from) {
                if !required.contains(&name) {
                    required.push(name);
                }
            }
        }
    }
}

/// Returns true for empty values, which are not published.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

fn plain(schema: &Value) -> Map<String, Value> {
    let mut published = Map::new();
    for field in PLAIN {
        let Some(value) = schema.get(field).filter(|value| !value.is_null()) else { continue };
        if field == "default" || field == "example" || !is_empty(value) {
            published.insert(field.to_owned(), value.clone());
        }
    }
    published
}

fn publish_junctors(schema: &Value, published: &mut Map<String, Value>) {
    for junctor in JUNCTORS {
        if let Some(Value::Array(parts)) = schema.get(junctor).filter(|parts| !is_empty(parts)) {
            published.insert(junctor.to_owned(), parts.iter().map(nested).collect());
        }
    }
    if let Some(part) = schema.get("not").filter(|part| part.is_object()) {
        published.insert("not".to_owned(), nested(part));
    }
}

/// Publishes a part of a junctor. Like kube-apiserver, drops its `additionalProperties`.
fn nested(schema: &Value) -> Value {
    let mut published = plain(schema);
    publish_junctors(schema, &mut published);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        published.insert("items".to_owned(), nested(items));
    }
    if let Some(Value::Object(properties)) = schema.get("properties").filter(|all| !is_empty(all)) {
        let properties = properties.iter().map(|(name, property)| (name.clone(), nested(property)));
        published.insert("properties".to_owned(), Value::Object(properties.collect()));
    }
    Value::Object(published)
}

/// Adds the meaning of `x-kubernetes-int-or-string` in plain OpenAPI: `anyOf` integer or string.
fn unfold_int_or_string(published: &mut Map<String, Value>) {
    let both = json!([{"type": "integer"}, {"type": "string"}]);
    let is_declared = published.get("anyOf") == Some(&both)
        || published.get("allOf").and_then(|all| all.get(0)).and_then(|first| first.get("anyOf"))
            == Some(&both);
    if is_declared {
        return;
    }
    if !published.contains_key("anyOf") {
        published.insert("anyOf".to_owned(), both);
        return;
    }
    let all = published.entry("allOf").or_insert_with(|| json!([]));
    if let Value::Array(all) = all {
        all.insert(0, json!({"anyOf": both}));
    }
}

fn downgrade(schema: &Value, preserves: bool, published: &mut Map<String, Value>) {
    // Built-in kinds have no defaults in this document either.
    published.remove("default");
    let is_nullable = published.remove("nullable").is_some();
    let ty = schema.get("type").and_then(Value::as_str);
    let has_items = published.contains_key("items");
    if is_nullable || (ty == Some("array") && !has_items) || (preserves && ty == Some("object")) {
        published.remove("type");
    }
    if schema.get("additionalProperties").is_some_and(|values| is_true(values, "nullable")) {
        published.remove("required");
    }
    let Some(Value::Array(required)) = published.get_mut("required").filter(|_| !is_nullable && !preserves)
    else {
        return;
    };
    required.retain(|name| {
        let property = name.as_str().and_then(|name| schema.get("properties")?.get(name));
        !property.is_some_and(|property| is_true(property, "nullable"))
    });
    if required.is_empty() {
        published.remove("required");
    }
}
