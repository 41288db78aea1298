//! Encodes objects as messages. They were decoded or validated before; a value of the wrong type is treated as
//! absent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::source::{Fields as _, Source};
use super::special;
use super::wire::{write_bytes, write_double, write_message, write_number};
use crate::schema::{Entry, Field, Item, Shape, Single, Slot, Type, TypeId, types};

/// Writes the fields of an object of a type; none if the value is not an object.
pub(super) fn structure<'a, S: Source<'a>>(out: &mut Vec<u8>, object: Option<S>, id: TypeId) {
    let one = types().get(id);
    entries::<S>(out, &S::fields(object, one), one, &one.message);
}

fn entries<'a, S: Source<'a>>(out: &mut Vec<u8>, object: &S::Fields, one: &Type, entries: &[Entry]) {
    for entry in entries {
        match &entry.slot {
            Slot::Field(index) => {
                let field = &one.fields[usize::from(*index)];
                write_field(out, entry.number, field, object.get(*index, field.name));
            }
            Slot::Embedded(inner) => {
                write_message(out, entry.number, |out| self::entries::<S>(out, object, one, inner));
            }
        }
    }
}

/// Writes a field with a value or `null`.
fn write_field<'a, S: Source<'a>>(out: &mut Vec<u8>, number: u32, field: &Field, value: Option<S>) {
    match field.shape {
        Shape::One(_) if field.pointer && value.is_none() => {}
        // A slice in Go, which is written if it is not nil.
        Shape::One(Item::Single(Single::Bytes | Single::Strings)) if value.is_none() => {}
        Shape::One(item) => write_item(out, number, item, value),
        Shape::List(item) => {
            for value in value.into_iter().flat_map(S::items) {
                write_item(out, number, item, value);
            }
        }
        // Map entries are sorted by key, as kube-apiserver writes them.
        Shape::Map(item) => {
            for (key, value) in value.into_iter().flat_map(S::members) {
                write_message(out, number, |out| {
                    write_bytes(out, 1, &key);
                    write_item(out, 2, item, value);
                });
            }
        }
    }
}

fn write_item<'a, S: Source<'a>>(out: &mut Vec<u8>, number: u32, item: Item, value: Option<S>) {
    let single = match item {
        Item::Struct(id) => return write_message(out, number, |out| structure(out, value, id)),
        Item::Single(single) => single,
    };
    let string = || value.and_then(S::string).unwrap_or_default();
    match single {
        Single::String => write_bytes(out, number, &string()),
        Single::Bytes => write_bytes(out, number, &STANDARD.decode(&*string()).unwrap_or_default()),
        // Negative numbers take all 64 bits, also those of 32 bits.
        Single::Int32 | Single::Int64 => {
            write_number(out, number, value.and_then(S::integer).unwrap_or_default().cast_unsigned());
        }
        Single::Boolean => write_number(out, number, u64::from(value.is_some_and(S::is_true))),
        Single::Double => write_double(out, number, value.and_then(S::double).unwrap_or_default()),
        _ => write_message(out, number, |out| special::write(out, single, value)),
    }
}
