//! Writes trees as messages. The trees were read or checked before; what does not fit its
//! type all the same is written as if it were not there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::special;
use super::wire::{write_bytes, write_double, write_message, write_number};
use crate::schema::{Entry, Field, Item, Shape, Single, Slot, Type, TypeId, types};

/// Writes the fields of an object of a type; none if it is not one.
pub(super) fn structure(out: &mut Vec<u8>, object: &Value, id: TypeId) {
    let one = types().get(id);
    entries(out, object, one, &one.message);
}

fn entries(out: &mut Vec<u8>, object: &Value, one: &Type, entries: &[Entry]) {
    for entry in entries {
        match &entry.slot {
            Slot::Field(index) => {
                let field = &one.fields[usize::from(*index)];
                write_field(out, entry.number, field, object.get(field.name).unwrap_or(&Value::Null));
            }
            Slot::Embedded(inner) => {
                write_message(out, entry.number, |out| self::entries(out, object, one, inner));
            }
        }
    }
}

fn write_field(out: &mut Vec<u8>, number: u32, field: &Field, value: &Value) {
    match field.shape {
        Shape::One(_) if field.pointer && value.is_null() => {}
        // A slice in Go, which is written when it is not nil.
        Shape::One(Item::Single(Single::Bytes | Single::Strings)) if value.is_null() => {}
        Shape::One(item) => write_item(out, number, item, value),
        Shape::List(item) => {
            for value in value.as_array().into_iter().flatten() {
                write_item(out, number, item, value);
            }
        }
        // The map of the tree is sorted by key, as upstream sorts when it writes.
        Shape::Map(item) => {
            for (key, value) in value.as_object().into_iter().flatten() {
                write_message(out, number, |out| {
                    write_bytes(out, 1, key.as_bytes());
                    write_item(out, 2, item, value);
                });
            }
        }
    }
}

fn write_item(out: &mut Vec<u8>, number: u32, item: Item, value: &Value) {
    let single = match item {
        Item::Struct(id) => return write_message(out, number, |out| structure(out, value, id)),
        Item::Single(single) => single,
    };
    match single {
        Single::String => write_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Single::Bytes => {
            let bytes = value.as_str().and_then(|text| STANDARD.decode(text).ok());
            write_bytes(out, number, &bytes.unwrap_or_default());
        }
        // Negative numbers take all 64 bits, those of 32 too.
        Single::Int32 | Single::Int64 => {
            write_number(out, number, value.as_i64().unwrap_or_default().cast_unsigned())
        }
        Single::Boolean => write_number(out, number, u64::from(value.as_bool().unwrap_or_default())),
        Single::Double => write_double(out, number, value.as_f64().unwrap_or_default()),
        _ => write_message(out, number, |out| special::write(out, single, value)),
    }
}
