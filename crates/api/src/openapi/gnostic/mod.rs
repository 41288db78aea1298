//! OpenAPI documents in protobuf, as messages of gnostic, which client-go requests.
//!
//! One table per message maps JSON fields to field numbers. Fields that are not in the table are omitted, except for
//! those that begin with `x-`, which are kept as text.

mod v2;
mod v3;

use coracle_meta::go_json;
use serde_json::{Map, Value};

use crate::codec::protobuf::wire::{write_bytes, write_double, write_message, write_number};

pub use v2::encode as encode_v2;
pub use v3::encode as encode_v3;

/// Encodes the content of a message.
type Message = fn(&Value, &mut Vec<u8>);

/// Encoding of a value.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Flag,
    Whole,
    Double,
    /// Any JSON, as text.
    Any,
    /// Lists.
    Texts,
    Anys,
    One(Message),
    Many(Message),
    /// A map: a message with named entries under this number.
    Map(u32, Message),
}

type Field = (&'static str, u32, Form);

/// The fields of a message, and the number of its extensions, or 0 if it has none.
struct Table(&'static [Field], u32);

impl Table {
    fn write(&self, value: &Value, out: &mut Vec<u8>) {
        let Some(fields) = value.as_object() else { return };
        for (name, number, form) in self.0 {
            if let Some(value) = fields.get(*name) {
                form.write(*number, value, out);
            }
        }
        if self.1 != 0 {
            let extensions = fields.iter().filter(|(name, _)| name.starts_with("x-"));
            extensions.for_each(|(name, value)| named(self.1, name, value, any, out));
        }
    }
}

impl Form {
    fn write(self, number: u32, value: &Value, out: &mut Vec<u8>) {
        use Form::{Any, Anys, Double, Flag, Many, One, Text, Texts, Whole};
        match self {
            Text => write_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
            Flag => write_number(out, number, u64::from(value.as_bool().unwrap_or_default())),
            Whole => write_number(out, number, value.as_i64().unwrap_or_default().cast_unsigned()),
            Double => write_double(out, number, value.as_f64().unwrap_or_default()),
            Any => write_message(out, number, |out| any(value, out)),
            One(message) => write_message(out, number, |out| message(value, out)),
            Texts => items(value).for_each(|one| Text.write(number, one, out)),
            Anys => items(value).for_each(|one| Any.write(number, one, out)),
            Many(message) => items(value).for_each(|one| One(message).write(number, one, out)),
            Form::Map(inner, message) => write_message(out, number, |out| {
                let entries = value.as_object().into_iter().flat_map(Map::iter);
                entries.for_each(|(name, value)| named(inner, name, value, message, out));
            }),
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// An entry of a map.
fn named(number: u32, name: &str, value: &Value, message: Message, out: &mut Vec<u8>) {
    write_message(out, number, |out| {
        write_bytes(out, 1, name.as_bytes());
        write_message(out, 2, |out| message(value, out));
    });
}

/// Readers expect YAML, of which JSON is a subset.
fn any(value: &Value, out: &mut Vec<u8>) {
    write_bytes(out, 2, &go_json::to_vec(value).unwrap_or_default());
}

/// The security schemes that a request must satisfy, each with a list of scopes.
fn requirement(value: &Value, out: &mut Vec<u8>) {
    for (name, scopes) in value.as_object().into_iter().flat_map(Map::iter) {
        named(1, name, scopes, |scopes, out| Form::Texts.write(1, scopes, out), out);
    }
}
