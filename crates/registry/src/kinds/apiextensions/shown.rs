//! Schemas and versions as upstream's messages show them: in the form they have inside the server,
//! which names all fields as Go does, in their order, whether they are set or not.

use std::fmt::Write as _;

use coracle_meta::field::{BadValue, json_text};
use serde_json::Value;

use crate::view;

/// How a field is shown.
#[derive(Clone, Copy)]
enum Shape {
    /// Empty if it is not there.
    Text,
    /// False if it is not there.
    Bool,
    /// Zero if it is not there.
    Number,
    /// As it is, or null.
    Any,
    Struct(&'static [Field]),
    List(&'static [Field]),
    /// By name; null if there are none.
    Map(&'static [Field]),
    /// One schema, or a list of them.
    Items,
    /// A schema, or whether anything is allowed.
    Additional,
}

/// Its name in Go, its name in JSON, and its shape.
type Field = (&'static str, &'static str, Shape);

static SCHEMA: [Field; 44] = [
    ("ID", "id", Shape::Text),
    ("Schema", "$schema", Shape::Text),
    ("Ref", "$ref", Shape::Any),
    ("Description", "description", Shape::Text),
    ("Type", "type", Shape::Text),
    ("Nullable", "nullable", Shape::Bool),
    ("Format", "format", Shape::Text),
    ("Title", "title", Shape::Text),
    ("Default", "default", Shape::Any),
    ("Maximum", "maximum", Shape::Any),
    ("ExclusiveMaximum", "exclusiveMaximum", Shape::Bool),
    ("Minimum", "minimum", Shape::Any),
    ("ExclusiveMinimum", "exclusiveMinimum", Shape::Bool),
    ("MaxLength", "maxLength", Shape::Any),
    ("MinLength", "minLength", Shape::Any),
    ("Pattern", "pattern", Shape::Text),
    ("MaxItems", "maxItems", Shape::Any),
    ("MinItems", "minItems", Shape::Any),
    ("UniqueItems", "uniqueItems", Shape::Bool),
    ("MultipleOf", "multipleOf", Shape::Any),
    ("Enum", "enum", Shape::Any),
    ("MaxProperties", "maxProperties", Shape::Any),
    ("MinProperties", "minProperties", Shape::Any),
    ("Required", "required", Shape::Any),
    ("Items", "items", Shape::Items),
    ("AllOf", "allOf", Shape::List(&SCHEMA)),
    ("OneOf", "oneOf", Shape::List(&SCHEMA)),
    ("AnyOf", "anyOf", Shape::List(&SCHEMA)),
    ("Not", "not", Shape::Struct(&SCHEMA)),
    ("Properties", "properties", Shape::Map(&SCHEMA)),
    ("AdditionalProperties", "additionalProperties", Shape::Additional),
    ("PatternProperties", "patternProperties", Shape::Map(&SCHEMA)),
    ("Dependencies", "dependencies", Shape::Any),
    ("AdditionalItems", "additionalItems", Shape::Additional),
    ("Definitions", "definitions", Shape::Map(&SCHEMA)),
    ("ExternalDocs", "externalDocs", Shape::Struct(&DOCS)),
    ("Example", "example", Shape::Any),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Shape::Any),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Shape::Bool),
    ("XIntOrString", "x-kubernetes-int-or-string", Shape::Bool),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Shape::Any),
    ("XListType", "x-kubernetes-list-type", Shape::Any),
    ("XMapType", "x-kubernetes-map-type", Shape::Any),
    ("XValidations", "x-kubernetes-validations", Shape::List(&RULE)),
];

static DOCS: [Field; 2] = [("Description", "description", Shape::Text), ("URL", "url", Shape::Text)];

static RULE: [Field; 6] = [
    ("Rule", "rule", Shape::Text),
    ("Message", "message", Shape::Text),
    ("MessageExpression", "messageExpression", Shape::Text),
    ("Reason", "reason", Shape::Any),
    ("FieldPath", "fieldPath", Shape::Text),
    ("OptionalOldSelf", "optionalOldSelf", Shape::Any),
];

static VERSION: [Field; 9] = [
    ("Name", "name", Shape::Text),
    ("Served", "served", Shape::Bool),
    ("Storage", "storage", Shape::Bool),
    ("Deprecated", "deprecated", Shape::Bool),
    ("DeprecationWarning", "deprecationWarning", Shape::Any),
    ("Schema", "schema", Shape::Struct(&[("OpenAPIV3Schema", "openAPIV3Schema", Shape::Struct(&SCHEMA))])),
    ("Subresources", "subresources", Shape::Struct(&SUBRESOURCES)),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", Shape::List(&COLUMN)),
    ("SelectableFields", "selectableFields", Shape::List(&[("JSONPath", "jsonPath", Shape::Text)])),
];

static SUBRESOURCES: [Field; 2] =
    [("Status", "status", Shape::Struct(&[])), ("Scale", "scale", Shape::Struct(&SCALE))];

static SCALE: [Field; 3] = [
    ("SpecReplicasPath", "specReplicasPath", Shape::Text),
    ("StatusReplicasPath", "statusReplicasPath", Shape::Text),
    ("LabelSelectorPath", "labelSelectorPath", Shape::Any),
];

static COLUMN: [Field; 6] = [
    ("Name", "name", Shape::Text),
    ("Type", "type", Shape::Text),
    ("Format", "format", Shape::Text),
    ("Description", "description", Shape::Text),
    ("Priority", "priority", Shape::Number),
    ("JSONPath", "jsonPath", Shape::Text),
];

/// A schema.
pub(super) fn schema(schema: &Value) -> BadValue {
    let mut text = String::new();
    write_struct(&mut text, Some(schema), &SCHEMA);
    BadValue::Json(text)
}

/// Versions without the parts that are the same in all of them, which upstream keeps elsewhere.
pub(super) fn versions(versions: &[Value], is_shared: impl Fn(&str) -> bool) -> BadValue {
    let parted = versions.iter().map(|version| {
        let mut version = version.clone();
        if let Value::Object(fields) = &mut version {
            fields.retain(|field, _| !is_shared(field));
        }
        version
    });
    let mut text = String::new();
    write_list(&mut text, &parted.collect::<Vec<_>>(), &VERSION);
    BadValue::Json(text)
}

/// The names in Go of the fields of a schema that are set, in their order.
pub(super) fn fields_set(schema: &Value) -> impl Iterator<Item = &'static str> {
    let is_set = |shape: Shape, value: &Value| match shape {
        Shape::Text | Shape::Bool => *value != Value::Bool(false) && value.as_str() != Some(""),
        _ => true,
    };
    SCHEMA
        .iter()
        .filter(move |(_, json, shape)| schema.get(json).is_some_and(|value| is_set(*shape, value)))
        .map(|(go, _, _)| *go)
}

fn write_struct(text: &mut String, value: Option<&Value>, fields: &[Field]) {
    let Some(value) = value.filter(|value| value.is_object()) else {
        text.push_str("null");
        return;
    };
    text.push('{');
    for (index, (go, json, shape)) in fields.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{go:?}:");
        write_field(text, value.get(json), *shape);
    }
    text.push('}');
}

fn write_field(text: &mut String, value: Option<&Value>, shape: Shape) {
    match shape {
        Shape::Text => text.push_str(&json_text(value.unwrap_or(&Value::from("")))),
        Shape::Bool => text.push_str(if value == Some(&Value::Bool(true)) { "true" } else { "false" }),
        Shape::Number => text.push_str(&json_text(value.unwrap_or(&Value::from(0)))),
        Shape::Any => text.push_str(&json_text(value.unwrap_or(&Value::Null))),
        Shape::Struct(fields) => write_struct(text, value, fields),
        Shape::List(fields) => match value.and_then(Value::as_array) {
            Some(items) => write_list(text, items, fields),
            None => text.push_str("null"),
        },
        Shape::Map(fields) => write_map(text, value, fields),
        Shape::Items => write_items(text, value),
        Shape::Additional => write_additional(text, value),
    }
}

fn write_list(text: &mut String, items: &[Value], fields: &[Field]) {
    text.push('[');
    for (index, item) in items.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { "," });
        write_struct(text, Some(item), fields);
    }
    text.push(']');
}

fn write_map(text: &mut String, value: Option<&Value>, fields: &[Field]) {
    let Some(value) = value else {
        text.push_str("null");
        return;
    };
    let mut entries: Vec<_> = view::fields(value, &[]).collect();
    entries.sort_by_key(|(name, _)| *name);
    text.push('{');
    for (index, (name, entry)) in entries.into_iter().enumerate() {
        text.push_str(if index == 0 { "" } else { "," });
        text.push_str(&json_text(&Value::from(name.as_str())));
        text.push(':');
        write_struct(text, Some(entry), fields);
    }
    text.push('}');
}

fn write_items(text: &mut String, value: Option<&Value>) {
    match value {
        None => text.push_str("null"),
        Some(value) => {
            text.push_str("{\"Schema\":");
            write_struct(text, Some(value), &SCHEMA);
            text.push_str(",\"JSONSchemas\":");
            write_field(text, Some(value), Shape::List(&SCHEMA));
            text.push('}');
        }
    }
}

fn write_additional(text: &mut String, value: Option<&Value>) {
    match value {
        None => text.push_str("null"),
        Some(value) => {
            let allows = value != &Value::Bool(false);
            let _ = write!(text, "{{\"Allows\":{allows},\"Schema\":");
            write_struct(text, Some(value), &SCHEMA);
            text.push('}');
        }
    }
}
