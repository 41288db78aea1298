//! Answers: objects, lists, tables, metadata.

use bytes::Bytes;
use coracle_api::codec::{protobuf, yaml};
use coracle_api::schema::types;
use coracle_meta::table::{META_V1, PartialObjectMetadata, Table, TableColumnDefinition, TableRow};
use coracle_registry::lifecycle::Page;
use coracle_registry::{Kind, type_prefix};
use http::{HeaderValue, Response, header};
use serde_json::{Value, json};

use super::accept::{Form, Shape, Wanted};
use crate::body::{ResponseBody, full};
use crate::discovery::group_version;
use crate::status::Refusal;

/// What an answer is about.
pub(crate) struct Encoding<'a> {
    pub(crate) kind: &'a dyn Kind,
    pub(crate) version: &'a str,
    pub(crate) wanted: Wanted,
    /// Seconds since the epoch, for ages in tables.
    pub(crate) now: i64,
}

impl Encoding<'_> {
    fn api_version(&self) -> String {
        group_version(&self.kind.declaration().group, self.version)
    }
}

/// One object, given as its JSON.
pub(crate) fn object(
    encoding: &Encoding<'_>,
    mut json_bytes: Bytes,
) -> Result<Response<ResponseBody>, Refusal> {
    let wanted = encoding.wanted;
    if encoding.kind.declaration().is_converted(encoding.version) {
        let object = encoding.kind.convert_out(encoding.version, tree(&json_bytes)?);
        json_bytes = to_json(&object).into();
    }
    if wanted.form == Form::Json && wanted.shape == Shape::Object {
        return Ok(respond(json_bytes, "application/json"));
    }
    let object = tree(&json_bytes)?;
    Ok(match (wanted.shape, wanted.form) {
        (Shape::Table, _) => {
            respond(to_json(&table(encoding, &[object], &json!({}), true)), "application/json")
        }
        (Shape::Metadata, _) => {
            respond(to_json(&PartialObjectMetadata::of(&object, META_V1)), "application/json")
        }
        (Shape::Object, Form::Yaml) => respond(yaml::encode(&object), "application/yaml"),
        (Shape::Object, _) => protobuf_object(encoding, &object, json_bytes),
    })
}

fn protobuf_object(encoding: &Encoding<'_>, object: &Value, json_bytes: Bytes) -> Response<ResponseBody> {
    let declaration = encoding.kind.declaration();
    match types().kind(&declaration.group, encoding.version, &declaration.kind) {
        Some(id) => respond(protobuf::encode(object, id), "application/vnd.kubernetes.protobuf"),
        // Clients that prefer protobuf always take JSON, too.
        None => respond(json_bytes, "application/json"),
    }
}

/// One page of a list.
pub(crate) fn page(encoding: &Encoding<'_>, page: &Page) -> Result<Response<ResponseBody>, Refusal> {
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if let Some(token) = &page.continue_token {
        metadata["continue"] = json!(token);
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    let list_kind = format!("{}List", encoding.kind.declaration().kind);
    match encoding.wanted.shape {
        Shape::Table => {
            let objects = trees(page)?;
            Ok(respond(to_json(&table(encoding, &objects, &metadata, true)), "application/json"))
        }
        Shape::Metadata => {
            let objects = trees(page)?;
            let items: Vec<_> =
                objects.iter().map(|object| PartialObjectMetadata::of(object, META_V1)).collect();
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": META_V1, "metadata": metadata, "items": items});
            Ok(respond(to_json(&list), "application/json"))
        }
        Shape::Object if encoding.wanted.form == Form::Yaml => {
            let list = json!({"apiVersion": encoding.api_version(), "items": trees(page)?, "kind": list_kind, "metadata": metadata});
            Ok(respond(yaml::encode(&list), "application/yaml"))
        }
        // Lists in protobuf are not offered yet; clients that prefer them take JSON.
        Shape::Object => Ok(respond(json_list(encoding, page, &list_kind, &metadata), "application/json")),
    }
}

/// The objects' own bytes, joined; of built-in kinds without their type, as upstream does.
fn json_list(encoding: &Encoding<'_>, page: &Page, list_kind: &str, metadata: &Value) -> Vec<u8> {
    let bytes: usize = page.entries.iter().map(|entry| entry.value_bytes().len() + 1).sum();
    let mut out = Vec::with_capacity(bytes + 256);
    let api_version = encoding.api_version();
    out.extend_from_slice(
        format!(
            "{{\"kind\":\"{list_kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
        )
        .as_bytes(),
    );
    let prefix = type_prefix(&api_version, &encoding.kind.declaration().kind);
    for (index, entry) in page.entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match entry.value_bytes().strip_prefix(prefix.as_bytes()) {
            Some(rest) => {
                out.push(b'{');
                out.extend_from_slice(rest);
            }
            None => out.extend_from_slice(entry.value_bytes()),
        }
    }
    out.extend_from_slice(b"]}");
    out
}

/// Rows of a table; `columns` only where they are told.
pub(crate) fn table(encoding: &Encoding<'_>, objects: &[Value], metadata: &Value, columns: bool) -> Table {
    let declaration = encoding.kind.declaration();
    let definitions = declaration.columns.iter().map(|column| TableColumnDefinition {
        name: column.name.to_string(),
        kind: column.value_type.to_string(),
        format: column.format.to_string(),
        description: column.description.to_string(),
        priority: column.priority,
    });
    let mut table = Table::new(definitions.collect());
    if !columns {
        table.column_definitions = None;
    }
    // The metadata of a list has exactly these fields.
    table.metadata = serde_json::from_value(metadata.clone()).unwrap_or_default();
    table.rows = objects
        .iter()
        .map(|object| TableRow {
            cells: encoding.kind.cells(object, encoding.now),
            object: to_value(&PartialObjectMetadata::of(object, META_V1)),
            ..TableRow::default()
        })
        .collect();
    table
}

fn trees(page: &Page) -> Result<Vec<Value>, Refusal> {
    page.entries.iter().map(|entry| tree(entry.value_bytes())).collect()
}

pub(crate) fn tree(bytes: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| {
        let reason = error.to_string();
        coracle_registry::Error::Corrupt { key: String::new(), reason }.into()
    })
}

pub(crate) fn to_json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("what is built here has a JSON")
}

pub(crate) fn to_value(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("what is built here has a JSON")
}

pub(crate) fn respond(bytes: impl Into<Bytes>, content_type: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(full(bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
