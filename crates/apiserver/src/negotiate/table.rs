//! Encoding of objects as `Table`, which `kubectl get` prints.

use coracle_meta::table::{IncludeObject, TableColumnDefinition};
use coracle_registry::encode::inner;
use coracle_registry::lifecycle::Object;
use coracle_registry::{Kind, KindRef};
use http::Response;
use serde_json::Value;

use super::accept::ResponseFormat;
use super::encode::{Encoding, metadata_json, seen, served, tree};
use super::respond::{self, to_json};
use crate::body::ResponseBody;
use crate::status::Refusal;

/// Returns the column definitions of a kind.
pub(super) fn columns(kind: &dyn Kind) -> Vec<TableColumnDefinition> {
    let columns = kind.declaration().columns.iter().map(|column| TableColumnDefinition {
        name: column.name.to_string(),
        kind: column.value_type.to_string(),
        format: column.format.to_string(),
        description: column.description.to_string(),
        priority: column.priority,
    });
    columns.collect()
}

/// Encoder of the rows of a table.
pub(super) struct Rows {
    kind: KindRef,
    version: Box<str>,
    format: ResponseFormat,
}

impl Rows {
    pub(super) fn of(encoding: &Encoding<'_>) -> Self {
        Self { kind: encoding.kind.clone(), version: encoding.version.into(), format: encoding.format }
    }

    /// Appends the row of a stored object; `now` is in seconds since the epoch.
    pub(super) fn write(&self, now: i64, object: &Object, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let read = seen(&*self.kind, object)?;
        out.extend_from_slice(b"{\"cells\":");
        out.extend(to_json(&self.kind.cells(&read, now)));
        let conditions = self.kind.row_conditions(&read);
        if !conditions.is_empty() {
            out.extend_from_slice(b",\"conditions\":");
            out.extend(to_json(&conditions));
        }
        out.extend_from_slice(b",\"object\":");
        match self.format.include {
            IncludeObject::None => out.extend_from_slice(b"null"),
            IncludeObject::Metadata => {
                let metadata = metadata_json(&*self.kind, &object.json, self.format.meta_version)?;
                out.extend_from_slice(&metadata);
            }
            IncludeObject::Object => {
                out.extend_from_slice(inner(&served(&*self.kind, &self.version, object)?));
            }
        }
        out.push(b'}');
        Ok(())
    }
}

/// Encodes a table of one row. A watch sends the columns only with its first event.
pub(super) fn of_one(rows: &Rows, now: i64, object: &Object, tell_columns: bool) -> Result<Vec<u8>, Refusal> {
    let revision = tree(&object.json)?["metadata"]["resourceVersion"].clone();
    of_all(rows, now, std::slice::from_ref(object), &revision, tell_columns)
}

/// Responds with a table of objects that are not stored.
pub(crate) fn table(encoding: &Encoding<'_>, objects: &[Object]) -> Result<Response<ResponseBody>, Refusal> {
    let table = of_all(&Rows::of(encoding), encoding.now, objects, &Value::Null, true)?;
    Ok(respond::json(encoding.format, table))
}

fn of_all(
    rows: &Rows,
    now: i64,
    objects: &[Object],
    revision: &Value,
    tell_columns: bool,
) -> Result<Vec<u8>, Refusal> {
    let Rows { kind, format, .. } = rows;
    let mut out = format!("{{\"kind\":\"Table\",\"apiVersion\":\"{}\",\"metadata\":{{", format.meta_version)
        .into_bytes();
    if revision.is_string() {
        out.extend_from_slice(b"\"resourceVersion\":");
        out.extend(to_json(revision));
    }
    out.extend_from_slice(b"},\"columnDefinitions\":");
    out.extend(to_json(&tell_columns.then(|| columns(&**kind))));
    out.extend_from_slice(b",\"rows\":[");
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        rows.write(now, object, &mut out)?;
    }
    out.extend_from_slice(b"]}");
    Ok(out)
}
