//! Encoding of lists. Items are encoded from the snapshot while the response is sent, so that a list in progress takes
//! the memory of one chunk and not of the whole response.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use coracle_api::codec::protobuf::{self, TextEncoder};
use coracle_api::codec::{TypeMeta, yaml};
use coracle_api::schema::types;
use coracle_meta::status::{ListMeta, Reason, Status};
use coracle_registry::Entry;
use coracle_registry::encode::{inner, type_prefix};
use coracle_registry::lifecycle::{AllClustersPage, Object, Page};
use http::Response;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::accept::{Form, ResponseFormat, Shape};
use super::encode::{Encoding, go_list_type, is_served_as_stored, metadata_json, seen, served, tree};
use super::messages::{self, Message, MessageCache};
use super::respond::{self, GZIP_ABOVE_BYTES, to_json, to_value};
use super::table;
use crate::body::ResponseBody;
use crate::status::Refusal;

/// Bytes of a list that are encoded at a time: large enough that a large list takes few writes, and small enough that
/// many lists at once take little memory.
const CHUNK_BYTES: usize = 64 * 1024;

/// Responds with one page of a list.
pub(crate) fn page(
    encoding: &Encoding<'_>,
    page: Page,
    cache: &MessageCache,
) -> Result<Response<ResponseBody>, Refusal> {
    let metadata = ListMeta {
        resource_version: page.revision.to_string(),
        continue_token: page.continue_token.unwrap_or_default(),
        remaining_item_count: page.remaining.and_then(|count| i64::try_from(count).ok()),
    };
    list(encoding, &metadata, page.entries, cache)
}

/// Responds with one page of the objects of all clusters, each with its cluster. JSON only, as only Coracle's own
/// client requests it.
pub(crate) fn page_all_clusters(
    encoding: &Encoding<'_>,
    page: AllClustersPage,
) -> Result<Response<ResponseBody>, Refusal> {
    let metadata = ListMeta {
        resource_version: page.revision.to_string(),
        continue_token: page.continue_token.unwrap_or_default(),
        remaining_item_count: None,
    };
    let hidden = page.found.hidden.iter();
    let hidden: Value =
        hidden.map(|(cluster, place)| json!({"cluster": &**cluster, "place": place})).collect();
    let (_, mut write) = json_parts(encoding, &metadata);
    let mut body = b"{\"metadata\":".to_vec();
    body.extend(to_json(&metadata));
    body.extend_from_slice(format!(",\"hidden\":{hidden},\"items\":[").as_bytes());
    for (index, (cluster, entry)) in page.found.objects.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        body.extend_from_slice(format!("{comma}{{\"cluster\":{},\"object\":", json!(&**cluster)).as_bytes());
        write(entry, &mut body)?;
        body.push(b'}');
    }
    body.extend_from_slice(b"]}");
    Ok(respond::json(encoding.format, body))
}

/// Responds with a list of these entries.
fn list(
    encoding: &Encoding<'_>,
    metadata: &ListMeta,
    entries: Vec<Entry>,
    cache: &MessageCache,
) -> Result<Response<ResponseBody>, Refusal> {
    if encoding.format.shape == Shape::Metadata {
        let message = format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({})",
            go_list_type(&**encoding.kind)
        );
        return Err(Status::failure(Reason::NotAcceptable, message).into());
    }
    let entries = match encoding.kind.row_order().filter(|_| encoding.format.shape == Shape::Table) {
        Some(order) => in_row_order(encoding, entries, order)?,
        None => entries,
    };
    match encoding.format.form {
        Form::Json => Ok(json_list(encoding, metadata, entries)),
        Form::Yaml => yaml_list(encoding, metadata, &entries),
        Form::Protobuf => protobuf_list(encoding, metadata, entries, cache),
    }
}

/// Sorts the entries of a table by rank; entries of the same rank stay sorted by name.
fn in_row_order(
    encoding: &Encoding<'_>,
    entries: Vec<Entry>,
    order: fn(&Value) -> i64,
) -> Result<Vec<Entry>, Refusal> {
    let ranked: Result<Vec<(i64, Entry)>, Refusal> = entries
        .into_iter()
        .map(|entry| Ok((order(&seen(&**encoding.kind, &Object::from(&entry))?), entry)))
        .collect();
    let mut ranked = ranked?;
    ranked.sort_by_key(|(rank, _)| *rank);
    Ok(ranked.into_iter().map(|(_, entry)| entry).collect())
}

fn json_list(encoding: &Encoding<'_>, metadata: &ListMeta, entries: Vec<Entry>) -> Response<ResponseBody> {
    let format = encoding.format;
    let (head, write) = json_parts(encoding, metadata);
    let entries = entries.into_iter();
    let (separator, end) = (b",", b"]}\n");
    let mut items = Items { buffer: head, entries, write, separator, end, first: true, ended: false };
    if format.pretty {
        let mut whole = Vec::new();
        while let Some(chunk) = items.chunk(CHUNK_BYTES) {
            whole.extend_from_slice(&chunk);
        }
        return respond::json(format, whole);
    }
    respond_list(format, Form::Json, items)
}

/// Responds with a list, with `Content-Length` if it fits into the first chunk.
fn respond_list(format: ResponseFormat, form: Form, mut items: Items) -> Response<ResponseBody> {
    let first = items.chunk(if format.gzip { GZIP_ABOVE_BYTES } else { CHUNK_BYTES }).unwrap_or_default();
    if items.ended {
        return respond::bytes_of(format, first, form);
    }
    items.buffer = first.into();
    let body = items.boxed_unsync();
    match format.gzip {
        true => respond::compressed(body, form),
        false => respond::respond(Bytes::new(), form.media_type()).map(|_| body),
    }
}

type WriteItem = Box<dyn FnMut(&Entry, &mut Vec<u8>) -> Result<(), Refusal> + Send>;

/// Returns the beginning of a JSON list and the function that encodes each item.
fn json_parts(encoding: &Encoding<'_>, metadata: &ListMeta) -> (Vec<u8>, WriteItem) {
    let (kind, format, now) = (encoding.kind.clone(), encoding.format, encoding.now);
    let api_version = encoding.api_version();
    let meta_version = format.meta_version;
    let told = list_meta(encoding, metadata);
    let head = |kind: &str, api_version: &str, more: &[u8], items: &str| {
        let mut head =
            format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":").into_bytes();
        head.extend(to_json(&told));
        head.extend_from_slice(more);
        head.extend_from_slice(format!(",\"{items}\":[").as_bytes());
        head
    };
    match format.shape {
        Shape::Table => {
            let mut columns = b",\"columnDefinitions\":".to_vec();
            columns.extend(to_json(&table::columns(&*kind)));
            let rows = table::Rows::of(encoding);
            let write = move |entry: &Entry, out: &mut Vec<u8>| rows.write(now, &Object::from(entry), out);
            (head("Table", meta_version, &columns, "rows"), Box::new(write))
        }
        Shape::Metadata | Shape::MetadataList => {
            let write = move |entry: &Entry, out: &mut Vec<u8>| {
                out.extend_from_slice(&metadata_json(&*kind, &entry.value_bytes(), meta_version)?);
                Ok(())
            };
            (head("PartialObjectMetadataList", meta_version, b"", "items"), Box::new(write))
        }
        Shape::Object => {
            let list_kind = kind.declaration().list_kind().into_owned();
            let prefix = type_prefix(&api_version, &kind.declaration().kind);
            // Items of kinds without a built-in type contain `kind` and `apiVersion`, others do not.
            let is_typed = kind.type_id(encoding.version).is_some();
            let version: Box<str> = encoding.version.into();
            let write = move |entry: &Entry, out: &mut Vec<u8>| {
                let object = served(&*kind, &version, &Object::from(entry))?;
                let object = inner(&object);
                match object.strip_prefix(prefix.as_bytes()).filter(|_| is_typed) {
                    Some(rest) => {
                        out.push(b'{');
                        out.extend_from_slice(rest);
                    }
                    None => out.extend_from_slice(object),
                }
                Ok(())
            };
            (head(&list_kind, &api_version, b"", "items"), Box::new(write))
        }
    }
}

/// Returns the metadata of a list. Lists of kinds without a built-in type always contain `continue`, even if it is
/// empty.
fn list_meta(encoding: &Encoding<'_>, metadata: &ListMeta) -> Value {
    let mut told = to_value(metadata);
    let is_untyped = encoding.kind.type_id(encoding.version).is_none();
    if let Value::Object(fields) = &mut told
        && is_untyped
        && encoding.format.shape == Shape::Object
    {
        fields.entry("continue").or_insert_with(|| "".into());
    }
    told
}

/// The body of a list, encoded while it is sent.
struct Items {
    /// Bytes that are encoded and not yet sent.
    buffer: Vec<u8>,
    entries: std::vec::IntoIter<Entry>,
    write: WriteItem,
    /// Bytes between two items.
    separator: &'static [u8],
    /// Bytes after the last item.
    end: &'static [u8],
    first: bool,
    ended: bool,
}

impl Items {
    /// Returns the next chunk, of at least this many bytes unless it is the last; `None` at the end.
    fn chunk(&mut self, at_least: usize) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        self.buffer.reserve(self.room(at_least));
        while self.buffer.len() <= at_least {
            let Some(entry) = self.entries.next() else {
                self.buffer.extend_from_slice(self.end);
                self.ended = true;
                break;
            };
            if !std::mem::replace(&mut self.first, false) {
                self.buffer.extend_from_slice(self.separator);
            }
            if let Err(refusal) = (self.write)(&entry, &mut self.buffer) {
                // The response has begun. A truncated body is invalid, so clients cannot mistake it for a complete
                // list.
                tracing::error!(reason = refusal.status().message, "a list ends early");
                self.ended = true;
                break;
            }
        }
        Some(std::mem::take(&mut self.buffer).into())
    }
}

impl Items {
    /// Estimates the size of the next chunk: encoded items are about as long as stored ones.
    fn room(&self, at_least: usize) -> usize {
        let mut bytes = 16;
        for entry in self.entries.as_slice() {
            bytes += entry.value_len() + 1;
            if bytes > at_least {
                break;
            }
        }
        bytes
    }
}

impl Body for Items {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.chunk(CHUNK_BYTES).map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

fn yaml_list(
    encoding: &Encoding<'_>,
    metadata: &ListMeta,
    entries: &[Entry],
) -> Result<Response<ResponseBody>, Refusal> {
    let format = encoding.format;
    let list = match format.shape {
        Shape::Object => {
            let items: Result<Vec<Value>, Refusal> =
                entries.iter().map(|entry| untyped(encoding, entry)).collect();
            let kind = encoding.kind.declaration().list_kind();
            let metadata = list_meta(encoding, metadata);
            json!({"kind": kind, "apiVersion": encoding.api_version(), "metadata": metadata, "items": items?})
        }
        _ => {
            let (mut text, mut write) = json_parts(encoding, metadata);
            for (index, entry) in entries.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write(entry, &mut text)?;
            }
            text.extend_from_slice(b"]}");
            tree(&text)?
        }
    };
    Ok(respond::bytes_of(format, yaml::encode(&list).into(), Form::Yaml))
}

fn untyped(encoding: &Encoding<'_>, entry: &Entry) -> Result<Value, Refusal> {
    let mut object = tree(&served(&**encoding.kind, encoding.version, &Object::from(entry))?)?;
    if let Value::Object(fields) = &mut object
        && encoding.kind.type_id(encoding.version).is_some()
    {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    Ok(object)
}

fn protobuf_list(
    encoding: &Encoding<'_>,
    metadata: &ListMeta,
    entries: Vec<Entry>,
    cache: &MessageCache,
) -> Result<Response<ResponseBody>, Refusal> {
    let declaration = encoding.kind.declaration();
    let metadata_only = encoding.format.shape != Shape::Object;
    let (id, type_meta) = if metadata_only {
        let type_meta = TypeMeta {
            api_version: encoding.format.meta_version.to_owned(),
            kind: "PartialObjectMetadataList".to_owned(),
        };
        (types().kind("meta.k8s.io", "v1", "PartialObjectMetadata"), type_meta)
    } else {
        let type_meta =
            TypeMeta { api_version: encoding.api_version(), kind: declaration.list_kind().into_owned() };
        (encoding.kind.type_id(encoding.version), type_meta)
    };
    let Some(id) = id else {
        // The kind has no protobuf type; clients that prefer protobuf always accept JSON as well.
        return Ok(json_list(encoding, metadata, entries));
    };
    // The length of all items precedes them, so their messages are encoded first. They stay packed until they are sent.
    let mut encoder = TextEncoder::default();
    let mut messages = Vec::with_capacity(entries.len());
    let mut items_bytes = 0;
    for entry in &entries {
        let stored = entry.value_bytes();
        let is_stored = metadata_only
            || is_served_as_stored(&**encoding.kind, encoding.version, &stored, entry.mod_revision());
        let message = match is_stored {
            true => cache.get_or_encode(&mut encoder, entry, &stored, id)?,
            false => {
                let object = served(&**encoding.kind, encoding.version, &Object::from(entry))?;
                Message::Plain(messages::encode(&mut encoder, &object, id)?.into())
            }
        };
        items_bytes += protobuf::item_bytes(message.len());
        messages.push(message);
    }
    let mut messages = messages.into_iter();
    let write = move |entry: &Entry, out: &mut Vec<u8>| {
        let Some(message) = messages.next() else { return Ok(()) };
        protobuf::begin_item(out, message.len());
        message.append(&entry.value_bytes(), out)
    };
    Ok(respond_list(
        encoding.format,
        Form::Protobuf,
        Items {
            buffer: protobuf::begin_list(&type_meta, &to_value(metadata), items_bytes),
            entries: entries.into_iter(),
            write: Box::new(write),
            separator: b"",
            end: protobuf::END_OF_ENVELOPE,
            first: true,
            ended: false,
        },
    ))
}
