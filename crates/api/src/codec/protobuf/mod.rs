//! Protobuf, which typed clients speak unless told otherwise, driven by the table of types.
//!
//! A body is four bytes that say so, then a message that names the kind and holds the object
//! as the bytes of another. Fields are written as upstream's code writes them: those that are
//! pointers when they are there, the others always.

mod read;
mod special;
#[cfg(test)]
mod tests;
pub(crate) mod wire;
mod write;

use serde_json::Value;

use super::{DecodeBudget, DecodeError, Decoded, TypeMeta};
use crate::schema::{TypeId, types};
use wire::{Field, Fields};

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Whether a body claims to be protobuf.
pub fn is_protobuf(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// The message around an object.
struct Envelope<'a> {
    type_meta: TypeMeta,
    object: &'a [u8],
}

/// Reads only which kind a body says it is.
pub fn type_meta(body: &[u8]) -> Result<TypeMeta, DecodeError> {
    envelope(body).map(|envelope| envelope.type_meta)
}

/// Reads a body within the budget of its size. It is the caller who limits that size. A body that does not name
/// its kind is taken for one of type `default`.
pub fn decode(body: &[u8], default: Option<TypeId>) -> Result<Decoded, DecodeError> {
    decode_within(body, default, &mut DecodeBudget::for_body(body.len()))
}

/// Reads a body within a budget.
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
    // Fields of unknown numbers are skipped without a word: a newer client may send them.
    Ok(Decoded { object, problems: Vec::new() })
}

/// Reads an object that is not in an envelope.
pub fn decode_message(message: &[u8], id: TypeId) -> Result<Value, DecodeError> {
    read::structure(message, id, &mut read::State::new(&mut DecodeBudget::for_body(message.len())))
}

/// Writes an object in its envelope, under the kind it says it is.
pub fn encode(object: &Value, id: TypeId) -> Vec<u8> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut out = MAGIC.to_vec();
    write_envelope(&mut out, text("apiVersion"), text("kind"), |out| write::structure(out, object, id));
    out
}

/// Writes an object without an envelope, as an item of a list is.
pub fn encode_message(object: &Value, id: TypeId) -> Vec<u8> {
    let mut out = Vec::new();
    write::structure(&mut out, object, id);
    out
}

/// Writes a list from its metadata and its items, each written by [`encode_message`].
///
/// All lists of the API have the same numbers.
pub fn encode_list<'a>(
    type_meta: &TypeMeta,
    metadata: &Value,
    items: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let list_meta =
        types().named("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta").expect("a type of the table");
    let mut out = MAGIC.to_vec();
    write_envelope(&mut out, &type_meta.api_version, &type_meta.kind, |out| {
        wire::write_message(out, 1, |out| write::structure(out, metadata, list_meta));
        items.into_iter().for_each(|item| wire::write_bytes(out, 2, item));
    });
    out
}

/// Writes an event of a watch with its length before it. The object is in its envelope.
pub fn watch_frame(event_type: &str, object: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 4];
    wire::write_bytes(&mut out, 1, event_type.as_bytes());
    wire::write_message(&mut out, 2, |out| wire::write_bytes(out, 1, object));
    let length = u32::try_from(out.len() - 4).expect("objects are far smaller than four gibibytes");
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

fn write_envelope(out: &mut Vec<u8>, api_version: &str, kind: &str, object: impl FnOnce(&mut Vec<u8>)) {
    wire::write_message(out, 1, |out| {
        wire::write_bytes(out, 1, api_version.as_bytes());
        wire::write_bytes(out, 2, kind.as_bytes());
    });
    wire::write_message(out, 2, object);
    // Encoding and type of the content: none, and the usual one.
    wire::write_bytes(out, 3, b"");
    wire::write_bytes(out, 4, b"");
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
