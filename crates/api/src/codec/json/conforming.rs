//! Fast path that conforms a tree to its type in place, without encoding and decoding it.
//!
//! A patch leaves most of the stored object unchanged, which is in its final form. Its changes at most lack fields
//! that are always written, or contain some that are omitted. So the tree is inspected first, and if nothing else is
//! needed, it is changed in place. Rare, invalid or expensive cases are left to the decoder.

use coracle_meta::budget::{MAX_DECODED_BYTES, heap_bytes};
use coracle_meta::go_json;
use serde_json::{Map, Number, Value};

use super::MAX_DEPTH;
use super::single::is_canonical_base64;
use crate::codec::time::{Precision, Timestamp};
use crate::codec::{empty, quantity};
use crate::schema::{Field, Item, Shape, Single, TypeId, types};

/// The object as encoding and decoding it would return it, if there are no problems; otherwise, or if only the
/// decoder can tell, the unchanged object as the error.
pub fn conform_soon(mut object: Value, id: TypeId) -> Result<Value, Value> {
    let mut look = Look { depth: 0, is_complete: true };
    if heap_bytes(&object) > MAX_DECODED_BYTES || look.structure(&object, id).is_none() {
        return Err(object);
    }
    if !look.is_complete {
        complete(&mut object, Item::Struct(id), true);
    }
    Ok(object)
}

/// Inspects one tree. Every method returns `None` as soon as a value does not, or may not, have its type.
struct Look {
    depth: usize,
    /// Whether all fields that are always written are present, and no omitted ones.
    is_complete: bool,
}

impl Look {
    fn structure(&mut self, value: &Value, id: TypeId) -> Option<()> {
        let is_whole = self.depth == 0;
        let object = value.as_object()?;
        self.deeper(|look| {
            let mut fields = types().get(id).fields.iter();
            for (name, value) in object {
                // Both are sorted by name; skipped fields of the type are absent from the object.
                let field = loop {
                    let field = fields.next()?;
                    if field.name == name {
                        break field;
                    }
                    look.is_complete &= field.omit_empty;
                };
                let is_explicit = is_whole && empty::is_told(field, value);
                look.is_complete &= is_explicit || empty::is_kept(field, value);
                look.field(value, field)?;
            }
            look.is_complete &= fields.all(|field| field.omit_empty);
            Some(())
        })
    }

    fn field(&mut self, value: &Value, field: &Field) -> Option<()> {
        match (field.shape, value) {
            // Equal to an absent field.
            (_, Value::Null) => Some(()),
            (Shape::One(item), _) => self.item(value, item),
            (Shape::List(item), Value::Array(items)) => self.items(items, item),
            (Shape::Map(item), Value::Object(fields)) => self.entries(fields, item),
            (Shape::List(_) | Shape::Map(_), _) => None,
        }
    }

    fn items(&mut self, items: &[Value], item: Item) -> Option<()> {
        self.deeper(|look| items.iter().try_for_each(|value| look.item(value, item)))
    }

    fn entries(&mut self, fields: &Map<String, Value>, item: Item) -> Option<()> {
        self.deeper(|look| fields.values().try_for_each(|value| look.item(value, item)))
    }

    fn item(&mut self, value: &Value, item: Item) -> Option<()> {
        match item {
            Item::Struct(id) => self.structure(value, id),
            Item::Single(single) => self.single(value, single),
        }
    }

    fn single(&mut self, value: &Value, single: Single) -> Option<()> {
        let is_so = match (single, value) {
            (Single::String | Single::IntOrString, Value::String(_)) | (Single::Boolean, Value::Bool(_)) => {
                true
            }
            (Single::Int32 | Single::IntOrString, Value::Number(number)) => {
                number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
            }
            (Single::Int64, Value::Number(number)) => number.is_i64(),
            (Single::Double, Value::Number(number)) => is_read_as_double(number),
            (Single::Bytes, Value::String(text)) => is_canonical_base64(text),
            (Single::Quantity, Value::String(text)) => {
                quantity::canonical(text).is_ok_and(|canonical| canonical == *text)
            }
            (Single::Time, Value::String(text)) => is_time(text, Precision::Seconds),
            (Single::MicroTime, Value::String(text)) => is_time(text, Precision::Micros),
            (Single::Strings, Value::Array(items)) => {
                return self.items(items, Item::Single(Single::String));
            }
            (Single::RawExtension | Single::FieldsV1 | Single::Patch, Value::Object(_)) => {
                return self.any(value, is_read_as_raw);
            }
            (Single::Json, Value::Object(_)) => return self.any(value, is_read_as_untyped),
            _ => false,
        };
        is_so.then_some(())
    }

    /// A value without a schema. `is_so` returns whether the decoder keeps a number in this form.
    fn any(&mut self, value: &Value, is_so: fn(&Number) -> bool) -> Option<()> {
        match value {
            Value::Object(fields) => {
                self.deeper(|look| fields.values().try_for_each(|value| look.any(value, is_so)))
            }
            Value::Array(items) => {
                self.deeper(|look| items.iter().try_for_each(|item| look.any(item, is_so)))
            }
            Value::Number(number) => is_so(number).then_some(()),
            Value::Null | Value::Bool(_) | Value::String(_) => Some(()),
        }
    }

    fn deeper(&mut self, look: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.depth += 1;
        (self.depth <= MAX_DEPTH).then_some(())?;
        let found = look(self);
        self.depth -= 1;
        found
    }
}

/// Adds the fields that are always written, and removes those that are omitted.
fn complete(value: &mut Value, item: Item, is_whole: bool) {
    let (Item::Struct(id), Value::Object(object)) = (item, value) else { return };
    for field in &types().get(id).fields {
        let Some(value) = object.get_mut(field.name) else { continue };
        match (field.shape, &mut *value) {
            (Shape::One(item), value) => complete(value, item, false),
            (Shape::List(item), Value::Array(items)) => {
                items.iter_mut().for_each(|value| complete(value, item, false));
            }
            (Shape::Map(item), Value::Object(fields)) => {
                fields.values_mut().for_each(|value| complete(value, item, false));
            }
            (Shape::List(_) | Shape::Map(_), _) => {}
        }
        let is_explicit = is_whole && empty::is_told(field, value);
        if !is_explicit && !empty::is_kept(field, value) {
            let value = object.remove(field.name).unwrap_or_default();
            empty::insert(object, field, value);
        }
    }
    let _bytes = empty::complete(object, id);
}

/// Whether a float64 field keeps the number in this form.
fn is_read_as_double(number: &Number) -> bool {
    number.as_f64().and_then(go_json::typed_number).as_ref() == Some(number)
}

/// Whether an untyped tree keeps the number in this form.
fn is_read_as_untyped(number: &Number) -> bool {
    number.is_i64() || number.as_f64().and_then(go_json::number).as_ref() == Some(number)
}

/// Whether a tree for raw bytes keeps the number in this form.
fn is_read_as_raw(number: &Number) -> bool {
    number.is_u64() || is_read_as_untyped(number)
}

/// Whether a time is in canonical form: UTC, with all digits of its precision.
fn is_time(text: &str, precision: Precision) -> bool {
    let length = match precision {
        Precision::Seconds => "2006-01-02T15:04:05Z".len(),
        Precision::Micros => "2006-01-02T15:04:05.000000Z".len(),
    };
    let is_canonical = text.len() == length && text.ends_with('Z');
    is_canonical && Timestamp::parse(text, precision).is_ok_and(|time| !time.is_zero())
}
