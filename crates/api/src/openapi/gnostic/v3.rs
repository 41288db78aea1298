//! v3 documents as the messages of `OpenAPIv3.proto`.

use serde_json::{Map, Value};

use super::Form::{self, Any, Anys, Double, Flag, Many, One, Text, Texts, Whole};
use super::{Table, named, requirement};
use crate::codec::protobuf::wire::{write_bytes, write_double, write_message, write_number};

/// Encodes a v3 document.
pub fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    DOCUMENT.write(document, &mut out);
    out
}

static DOCUMENT: Table = Table(
    &[
        ("openapi", 1, Text),
        ("info", 2, One(|value, out| INFO.write(value, out))),
        ("servers", 3, Many(|value, out| SERVER.write(value, out))),
        ("paths", 4, Form::Map(1, |value, out| PATH_ITEM.write(value, out))),
        ("components", 5, One(|value, out| COMPONENTS.write(value, out))),
        ("security", 6, Many(requirement)),
    ],
    9,
);
static INFO: Table = Table(&[("title", 1, Text), ("description", 2, Text), ("version", 6, Text)], 7);
static SERVER: Table = Table(&[("url", 1, Text), ("description", 2, Text)], 4);
static COMPONENTS: Table = Table(
    &[
        ("schemas", 1, Form::Map(1, schema)),
        ("responses", 2, Form::Map(1, response)),
        ("parameters", 3, Form::Map(1, parameter)),
        ("requestBodies", 5, Form::Map(1, request_body)),
        ("securitySchemes", 7, Form::Map(1, security_scheme)),
    ],
    10,
);
static PATH_ITEM: Table = Table(
    &[
        ("$ref", 1, Text),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("get", 4, One(operation)),
        ("put", 5, One(operation)),
        ("post", 6, One(operation)),
        ("delete", 7, One(operation)),
        ("options", 8, One(operation)),
        ("head", 9, One(operation)),
        ("patch", 10, One(operation)),
        ("trace", 11, One(operation)),
        ("parameters", 13, Many(parameter)),
    ],
    14,
);
static OPERATION: Table = Table(
    &[
        ("tags", 1, Texts),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("parameters", 6, Many(parameter)),
        ("requestBody", 7, One(request_body)),
        ("responses", 8, One(responses)),
        ("deprecated", 10, Flag),
        ("security", 11, Many(requirement)),
    ],
    13,
);
static PARAMETER: Table = Table(
    &[
        ("name", 1, Text),
        ("in", 2, Text),
        ("description", 3, Text),
        ("required", 4, Flag),
        ("deprecated", 5, Flag),
        ("allowEmptyValue", 6, Flag),
        ("style", 7, Text),
        ("explode", 8, Flag),
        ("allowReserved", 9, Flag),
        ("schema", 10, One(schema)),
        ("example", 11, Any),
        ("content", 13, Form::Map(1, media_type)),
    ],
    14,
);
static REQUEST_BODY: Table =
    Table(&[("description", 1, Text), ("content", 2, Form::Map(1, media_type)), ("required", 3, Flag)], 4);
static RESPONSE: Table = Table(&[("description", 1, Text), ("content", 3, Form::Map(1, media_type))], 5);
static MEDIA_TYPE: Table = Table(&[("schema", 1, One(schema)), ("example", 2, Any)], 5);
static REFERENCE: Table = Table(&[("$ref", 1, Text), ("summary", 2, Text), ("description", 3, Text)], 0);
static SCHEMA: Table = Table(
    &[
        ("nullable", 1, Flag),
        ("readOnly", 3, Flag),
        ("writeOnly", 4, Flag),
        ("externalDocs", 6, One(|value, out| EXTERNAL_DOCS.write(value, out))),
        ("example", 7, Any),
        ("deprecated", 8, Flag),
        ("title", 9, Text),
        ("multipleOf", 10, Double),
        ("maximum", 11, Double),
        ("exclusiveMaximum", 12, Flag),
        ("minimum", 13, Double),
        ("exclusiveMinimum", 14, Flag),
        ("maxLength", 15, Whole),
        ("minLength", 16, Whole),
        ("pattern", 17, Text),
        ("maxItems", 18, Whole),
        ("minItems", 19, Whole),
        ("uniqueItems", 20, Flag),
        ("maxProperties", 21, Whole),
        ("minProperties", 22, Whole),
        ("required", 23, Texts),
        ("enum", 24, Anys),
        ("type", 25, Text),
        ("allOf", 26, Many(schema)),
        ("oneOf", 27, Many(schema)),
        ("anyOf", 28, Many(schema)),
        ("not", 29, One(|value, out| SCHEMA.write(value, out))),
        ("items", 30, One(schema_item)),
        ("properties", 31, Form::Map(1, schema)),
        ("additionalProperties", 32, One(schema_or_flag)),
        ("default", 33, One(default)),
        ("description", 34, Text),
        ("format", 35, Text),
    ],
    36,
);
static EXTERNAL_DOCS: Table = Table(&[("description", 1, Text), ("url", 2, Text)], 3);
static SECURITY_SCHEME: Table = Table(
    &[
        ("type", 1, Text),
        ("description", 2, Text),
        ("name", 3, Text),
        ("in", 4, Text),
        ("scheme", 5, Text),
        ("bearerFormat", 6, Text),
        ("openIdConnectUrl", 8, Text),
    ],
    9,
);

/// Encodes a message with two alternatives: the object itself, or a reference to it.
fn or_reference(table: &Table, value: &Value, out: &mut Vec<u8>) {
    match value.get("$ref") {
        Some(_) => write_message(out, 2, |out| REFERENCE.write(value, out)),
        None => write_message(out, 1, |out| table.write(value, out)),
    }
}

fn schema(value: &Value, out: &mut Vec<u8>) {
    or_reference(&SCHEMA, value, out);
}

fn response(value: &Value, out: &mut Vec<u8>) {
    or_reference(&RESPONSE, value, out);
}

fn parameter(value: &Value, out: &mut Vec<u8>) {
    or_reference(&PARAMETER, value, out);
}

fn request_body(value: &Value, out: &mut Vec<u8>) {
    or_reference(&REQUEST_BODY, value, out);
}

fn security_scheme(value: &Value, out: &mut Vec<u8>) {
    or_reference(&SECURITY_SCHEME, value, out);
}

fn operation(value: &Value, out: &mut Vec<u8>) {
    OPERATION.write(value, out);
}

fn media_type(value: &Value, out: &mut Vec<u8>) {
    MEDIA_TYPE.write(value, out);
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

/// A default value. The message has no alternative for objects and lists; gnostic leaves it empty for those.
fn default(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Number(number) => write_double(out, 1, number.as_f64().unwrap_or_default()),
        Value::Bool(flag) => write_number(out, 2, u64::from(*flag)),
        Value::String(text) => write_bytes(out, 3, text.as_bytes()),
        _ => {}
    }
}

/// Responses by status code; `default` has a field of its own.
fn responses(value: &Value, out: &mut Vec<u8>) {
    for (code, value) in value.as_object().into_iter().flat_map(Map::iter) {
        match code.as_str() {
            "default" => write_message(out, 1, |out| response(value, out)),
            code => named(2, code, value, response, out),
        }
    }
}
