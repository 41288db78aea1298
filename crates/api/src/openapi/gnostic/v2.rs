//! v2 documents as the messages of `OpenAPIv2.proto`.

use serde_json::Value;

use super::Form::{self, Any, Anys, Double, Flag, Many, One, Text, Texts, Whole};
use super::{Table, requirement};
use crate::codec::protobuf::wire::write_message;

/// Encodes a v2 document.
pub fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    document_message(document, &mut out);
    out
}

static DOCUMENT: Table = Table(
    &[
        ("swagger", 1, Text),
        ("info", 2, One(|value, out| INFO.write(value, out))),
        ("host", 3, Text),
        ("basePath", 4, Text),
        ("schemes", 5, Texts),
        ("consumes", 6, Texts),
        ("produces", 7, Texts),
        ("paths", 8, Form::Map(2, |value, out| PATH_ITEM.write(value, out))),
        ("definitions", 9, Form::Map(1, schema)),
        ("parameters", 10, Form::Map(1, parameter)),
        ("security", 12, Many(requirement)),
        ("securityDefinitions", 13, Form::Map(1, security)),
    ],
    16,
);
static INFO: Table = Table(&[("title", 1, Text), ("version", 2, Text), ("description", 3, Text)], 7);
static PATH_ITEM: Table = Table(
    &[
        ("$ref", 1, Text),
        ("get", 2, One(operation)),
        ("put", 3, One(operation)),
        ("post", 4, One(operation)),
        ("delete", 5, One(operation)),
        ("options", 6, One(operation)),
        ("head", 7, One(operation)),
        ("patch", 8, One(operation)),
        ("parameters", 9, Many(parameter_or_reference)),
    ],
    10,
);
static OPERATION: Table = Table(
    &[
        ("tags", 1, Texts),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Many(parameter_or_reference)),
        ("responses", 9, Form::Map(1, response)),
        ("schemes", 10, Texts),
        ("deprecated", 11, Flag),
    ],
    13,
);
static RESPONSE: Table = Table(&[("description", 1, Text), ("schema", 2, One(schema_item))], 5);
static REFERENCE: Table = Table(&[("$ref", 1, Text), ("description", 2, Text)], 0);
static BODY_PARAMETER: Table = Table(
    &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, One(schema)),
    ],
    6,
);
static QUERY_PARAMETER: Table = Table(
    &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("allowEmptyValue", 5, Flag),
        ("type", 6, Text),
        ("format", 7, Text),
        ("default", 10, Any),
        ("uniqueItems", 20, Flag),
        ("enum", 21, Anys),
    ],
    23,
);
/// For header parameters too.
static PATH_PARAMETER: Table = Table(
    &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("default", 9, Any),
        ("uniqueItems", 19, Flag),
        ("enum", 20, Anys),
    ],
    22,
);
static SCHEMA: Table = Table(
    &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Whole),
        ("minLength", 12, Whole),
        ("pattern", 13, Text),
        ("maxItems", 14, Whole),
        ("minItems", 15, Whole),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Whole),
        ("minProperties", 18, Whole),
        ("required", 19, Texts),
        ("enum", 20, Anys),
        ("additionalProperties", 21, One(schema_or_flag)),
        ("type", 22, One(type_names)),
        ("items", 23, One(schema_item)),
        ("allOf", 24, Many(schema)),
        ("properties", 25, Form::Map(1, schema)),
        ("discriminator", 26, Text),
        ("readOnly", 27, Flag),
        ("externalDocs", 29, One(|value, out| EXTERNAL_DOCS.write(value, out))),
        ("example", 30, Any),
    ],
    31,
);
static EXTERNAL_DOCS: Table = Table(&[("description", 1, Text), ("url", 2, Text)], 3);
static API_KEY: Table =
    Table(&[("type", 1, Text), ("name", 2, Text), ("in", 3, Text), ("description", 4, Text)], 5);

fn document_message(value: &Value, out: &mut Vec<u8>) {
    DOCUMENT.write(value, out);
}

fn operation(value: &Value, out: &mut Vec<u8>) {
    OPERATION.write(value, out);
}

fn schema(value: &Value, out: &mut Vec<u8>) {
    SCHEMA.write(value, out);
}

/// A schema that is wrapped in another message.
fn schema_item(value: &Value, out: &mut Vec<u8>) {
    write_message(out, 1, |out| schema(value, out));
}

fn schema_or_flag(value: &Value, out: &mut Vec<u8>) {
    match value.as_bool() {
        Some(_) => Flag.write(2, value, out),
        None => schema_item(value, out),
    }
}

fn type_names(value: &Value, out: &mut Vec<u8>) {
    let form = if value.is_array() { Texts } else { Text };
    form.write(1, value, out);
}

fn response(value: &Value, out: &mut Vec<u8>) {
    match value.get("$ref") {
        Some(_) => write_message(out, 2, |out| REFERENCE.write(value, out)),
        None => write_message(out, 1, |out| RESPONSE.write(value, out)),
    }
}

fn parameter_or_reference(value: &Value, out: &mut Vec<u8>) {
    match value.get("$ref") {
        Some(_) => write_message(out, 2, |out| REFERENCE.write(value, out)),
        None => write_message(out, 1, |out| parameter(value, out)),
    }
}

fn parameter(value: &Value, out: &mut Vec<u8>) {
    let (number, table) = match value["in"].as_str() {
        Some("body") => return write_message(out, 1, |out| BODY_PARAMETER.write(value, out)),
        Some("header") => (1, &PATH_PARAMETER),
        Some("formData") => (2, &QUERY_PARAMETER),
        Some("query") => (3, &QUERY_PARAMETER),
        _ => (4, &PATH_PARAMETER),
    };
    write_message(out, 2, |out| write_message(out, number, |out| table.write(value, out)));
}

fn security(value: &Value, out: &mut Vec<u8>) {
    write_message(out, 2, |out| API_KEY.write(value, out));
}
