//! Protobuf, the default encoding of typed clients, driven by the table of types.
//!
//! A body is a magic number of four bytes, then an envelope message (`runtime.Unknown`) that names the kind and
//! contains the object's message as bytes. Fields are written as by Kubernetes' generated code: pointers if they are
//! set, all others always.

mod read;
mod source;
mod special;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod wire;
mod write;

use serde_json::Value;

use super::{DecodeBudget, DecodeError, Decoded, TypeMeta};
use crate::schema::{TypeId, types};
use text::{NotStored, Outline};
use wire::{Field, Fields};

/// The first bytes of every body.
const MAGIC: &[u8] = b"k8s\0";

/// Whether a body begins like protobuf.
pub fn is_protobuf(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// The envelope of an object.
struct Envelope<'a> {
    type_meta: TypeMeta,
    object: &'a [u8],
}

/// Decodes only `apiVersion` and `kind` of a body.
pub fn type_meta(body: &[u8]) -> Result<TypeMeta, DecodeError> {
    envelope(body).map(|envelope| envelope.type_meta)
}

/// Decodes a body within the memory budget for its size. The caller limits the size. A body that does not name its
/// kind has the type `default`.
pub fn decode(body: &[u8], default: Option<TypeId>) -> Result<Decoded, DecodeError> {
    decode_within(body, default, &mut DecodeBudget::for_body(body.len()))
}

/// Decodes a body within a memory budget.
pub fn decode_within(
    body: &[u8],
    default: Option<TypeId>,
    budget: &mut DecodeBudget,
) -> Result<Decoded, DecodeError> {
    let Envelope { type_meta, object } = envelope(body)?;
    let named = types().kind(type_meta.group(), type_meta.version(), &type_meta.kind);
    let default = default.filter(|_| type_meta.kind.is_empty() && type_meta.api_version.is_empty());
    let Some(id) = named.or(default) else {
        return Err(DecodeError::UnknownKind { api_version: type_meta.api_version, kind: type_meta.kind });
    };
    let mut object = read::structure(object, id, &mut read::State::new(budget))?;
    if let Value::Object(fields) = &mut object {
        for (name, value) in [("apiVersion", type_meta.api_version), ("kind", type_meta.kind)] {
            if !value.is_empty() {
                fields.insert(name.to_owned(), Value::String(value));
            }
        }
    }
    // Unknown fields are skipped without a problem, because a newer client may send them.
    Ok(Decoded { object, problems: Vec::new() })
}

/// Decodes an object without an envelope.
pub fn decode_message(message: &[u8], id: TypeId) -> Result<Value, DecodeError> {
    read::structure(message, id, &mut read::State::new(&mut DecodeBudget::for_body(message.len())))
}

/// Encodes an object in an envelope, with the kind that it states.
pub fn encode(object: &Value, id: TypeId) -> Vec<u8> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let type_meta = TypeMeta { api_version: text("apiVersion").to_owned(), kind: text("kind").to_owned() };
    let mut out = Vec::new();
    write_envelope(&mut out, &type_meta, |out| write::structure(out, Some(object), id));
    out
}

/// Encodes an object without an envelope, such as an item of a list.
pub fn encode_message(object: &Value, id: TypeId) -> Vec<u8> {
    let mut out = Vec::new();
    write::structure(&mut out, Some(object), id);
    out
}

/// Encodes messages from the JSON text of objects, equal to those of [`encode_message`] from trees.
#[derive(Default)]
pub struct TextEncoder {
    outline: Outline,
}

impl TextEncoder {
    /// Appends the message of an object in stored form: compact JSON, unique names, and numbers as Go prints them.
    /// Appends nothing and returns false if the text is not in that form.
    #[must_use]
    pub fn encode(&mut self, json: &[u8], id: TypeId, out: &mut Vec<u8>) -> bool {
        match self.outline.read(json) {
            Ok(object) => {
                write::structure(out, Some(object), id);
                true
            }
            Err(NotStored) => false,
        }
    }
}

/// Wraps the message of an object in an envelope.
pub fn envelop(type_meta: &TypeMeta, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 64);
    write_envelope(&mut out, type_meta, |out| out.extend_from_slice(message));
    out
}

/// The beginning of a list body, up to its items. Each item follows after [`begin_item`], then [`END_OF_ENVELOPE`].
/// `items_bytes` is the size of all items.
///
/// All lists of the API have the same field numbers.
pub fn begin_list(type_meta: &TypeMeta, metadata: &Value, items_bytes: usize) -> Vec<u8> {
    let list_meta =
        types().named("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta").expect("a type of the table");
    let mut fields = Vec::new();
    wire::write_message(&mut fields, 1, |out| write::structure(out, Some(metadata), list_meta));
    let mut out = MAGIC.to_vec();
    write_type_meta(&mut out, type_meta);
    wire::write_length(&mut out, 2, fields.len() + items_bytes);
    out.extend(fields);
    out
}

/// Begins an item of a list; its message follows.
pub fn begin_item(out: &mut Vec<u8>, message_bytes: usize) {
    wire::write_length(out, 2, message_bytes);
}

/// Size of an item in a list, with its tag and length.
pub fn item_bytes(message_bytes: usize) -> usize {
    field_bytes(message_bytes)
}

/// The fields for the encoding and the type of the content, which are empty.
pub const END_OF_ENVELOPE: &[u8] = b"\x1a\0\x22\0";

/// Encodes a watch event with its length prefix. The object is in its envelope.
pub fn watch_frame(event_type: &str, object: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 4];
    wire::write_bytes(&mut out, 1, event_type.as_bytes());
    wire::write_message(&mut out, 2, |out| wire::write_bytes(out, 1, object));
    let length = u32::try_from(out.len() - 4).expect("objects are far smaller than four gibibytes");
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// Begins a watch event as [`watch_frame`] encodes it. The message of the object follows, then [`END_OF_ENVELOPE`].
pub fn begin_event(out: &mut Vec<u8>, event_type: &str, type_meta: &TypeMeta, message_bytes: usize) {
    let type_meta_bytes = field_bytes(type_meta.api_version.len()) + field_bytes(type_meta.kind.len());
    let fields = field_bytes(type_meta_bytes) + field_bytes(message_bytes);
    let object = MAGIC.len() + fields + END_OF_ENVELOPE.len();
    let event = field_bytes(event_type.len()) + field_bytes(field_bytes(object));
    let length = u32::try_from(event).expect("objects are far smaller than four gibibytes");
    out.reserve(4 + event);
    out.extend_from_slice(&length.to_be_bytes());
    wire::write_bytes(out, 1, event_type.as_bytes());
    wire::write_length(out, 2, field_bytes(object));
    wire::write_length(out, 1, object);
    out.extend_from_slice(MAGIC);
    write_type_meta(out, type_meta);
    wire::write_length(out, 2, message_bytes);
}

/// Size of a field with a number of up to 15, with its tag and length.
fn field_bytes(content: usize) -> usize {
    1 + wire::varint_bytes(content as u64) + content
}

fn write_envelope(out: &mut Vec<u8>, type_meta: &TypeMeta, object: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(MAGIC);
    write_type_meta(out, type_meta);
    wire::write_message(out, 2, object);
    out.extend_from_slice(END_OF_ENVELOPE);
}

fn write_type_meta(out: &mut Vec<u8>, type_meta: &TypeMeta) {
    wire::write_message(out, 1, |out| {
        wire::write_bytes(out, 1, type_meta.api_version.as_bytes());
        wire::write_bytes(out, 2, type_meta.kind.as_bytes());
    });
}

fn envelope(body: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    let message = body.strip_prefix(MAGIC).ok_or_else(|| DecodeError::Protobuf {
        message: "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
            .into(),
    })?;
    let mut found = Envelope { type_meta: TypeMeta::default(), object: b"" };
    for field in Fields::new(message) {
        let Field { number, value } = field?;
        match number {
            1 => found.type_meta = read_type_meta(value.bytes()?)?,
            2 => found.object = value.bytes()?,
            3 if !value.bytes()?.is_empty() => {
                return Err(DecodeError::Protobuf {
                    message: "the content encoding of the body is not known".into(),
                });
            }
            _ => {}
        }
    }
    Ok(found)
}

fn read_type_meta(message: &[u8]) -> Result<TypeMeta, DecodeError> {
    let mut found = TypeMeta::default();
    for field in Fields::new(message) {
        let Field { number, value } = field?;
        match number {
            1 => found.api_version = value.text()?,
            2 => found.kind = value.text()?,
            _ => {}
        }
    }
    Ok(found)
}
