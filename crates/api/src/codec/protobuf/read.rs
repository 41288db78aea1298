//! Decodes messages into trees. Unknown fields are skipped.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_meta::budget::heap_bytes;
use serde_json::{Map, Value};

use super::special;
use super::wire::{Field, Fields, Wire, fault, varint};
use crate::codec::json::{MAX_DEPTH, double};
use crate::codec::{DecodeBudget, DecodeError, empty};
use crate::schema::{Entry, Item, Shape, Single, Slot, Type, TypeId, types};

/// Depth and memory budget of a decoding.
pub(super) struct State<'b> {
    depth: usize,
    pub(super) budget: &'b mut DecodeBudget,
}

impl<'b> State<'b> {
    pub(super) fn new(budget: &'b mut DecodeBudget) -> Self {
        Self { depth: 0, budget }
    }

    /// Text, which is charged before it is copied.
    pub(super) fn text(&mut self, value: Wire<'_>) -> Result<String, DecodeError> {
        self.budget.text(value.bytes()?.len())?;
        value.text()
    }

    /// Decodes a nested value, within the limit of depth.
    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(fault("exceeded max depth"));
        }
        let result = read(self);
        self.depth -= 1;
        result
    }
}

/// Decodes the message of a type.
pub(super) fn structure(message: &[u8], id: TypeId, state: &mut State<'_>) -> Result<Value, DecodeError> {
    let one = types().get(id);
    let mut found = Found { one, values: Vec::new() };
    state.deeper(|state| found.entries(message, &one.message, state))?;
    let mut object = Map::new();
    for (index, value) in found.values {
        if !value.is_null() {
            empty::insert(&mut object, &one.fields[index], value);
        }
    }
    let added = empty::complete(&mut object, id);
    empty::charge_fields(state.budget, &object, added)?;
    Ok(Value::Object(object))
}

/// The fields that were found, each with its index in the type.
struct Found {
    one: &'static Type,
    values: Vec<(usize, Value)>,
}

impl Found {
    fn entries(
        &mut self,
        message: &[u8],
        entries: &'static [Entry],
        state: &mut State<'_>,
    ) -> Result<(), DecodeError> {
        for field in Fields::new(message) {
            let Field { number, value } = field?;
            let Ok(at) = entries.binary_search_by_key(&number, |entry| entry.number) else { continue };
            match &entries[at].slot {
                Slot::Field(index) => self.field(usize::from(*index), value, state)?,
                Slot::Embedded(inner) => state.deeper(|state| self.entries(value.bytes()?, inner, state))?,
            }
        }
        Ok(())
    }

    /// The value of a field. Repeated fields mostly follow each other, so the last is tried first.
    fn slot(&mut self, index: usize) -> &mut Value {
        let at = self.values.iter().rposition(|(found, _)| *found == index).unwrap_or_else(|| {
            self.values.push((index, Value::Null));
            self.values.len() - 1
        });
        &mut self.values[at].1
    }

    fn field(&mut self, index: usize, value: Wire<'_>, state: &mut State<'_>) -> Result<(), DecodeError> {
        let shape = self.one.fields[index].shape;
        let slot = self.slot(index);
        match shape {
            Shape::One(item) => *slot = read_item(value, item, state)?,
            Shape::List(item) => {
                if slot.is_null() {
                    *slot = Value::Array(Vec::new());
                }
                let Value::Array(items) = slot else { return Ok(()) };
                match (item, value) {
                    (Item::Single(Single::Int32 | Single::Int64 | Single::Boolean), Wire::Bytes(packed)) => {
                        let mut rest = packed;
                        while !rest.is_empty() {
                            state.budget.item(items.len())?;
                            let number = Wire::Varint(varint(&mut rest)?);
                            items.push(read_item(number, item, state)?);
                        }
                    }
                    _ => {
                        state.budget.item(items.len())?;
                        items.push(read_item(value, item, state)?);
                    }
                }
            }
            Shape::Map(item) => {
                if slot.is_null() {
                    *slot = Value::Object(Map::new());
                }
                let Value::Object(entries) = slot else { return Ok(()) };
                let (key, value) = read_entry(value.bytes()?, item, state)?;
                state.budget.entry(entries.len(), key.len())?;
                entries.insert(key, value);
            }
        }
        Ok(())
    }
}

/// Decodes a map entry: a message with a key and a value, either of which may be missing.
fn read_entry(message: &[u8], item: Item, state: &mut State<'_>) -> Result<(String, Value), DecodeError> {
    let mut key = String::new();
    let mut value = None;
    for field in Fields::new(message) {
        match field? {
            Field { number: 1, value } => key = value.text()?,
            Field { number: 2, value: found } => value = Some(read_item(found, item, state)?),
            _ => {}
        }
    }
    let value = match value {
        Some(value) => value,
        None => {
            let value = empty::of_item(item);
            state.budget.charge(heap_bytes(&value))?;
            value
        }
    };
    Ok((key, value))
}

fn read_item(value: Wire<'_>, item: Item, state: &mut State<'_>) -> Result<Value, DecodeError> {
    let single = match item {
        Item::Struct(id) => return structure(value.bytes()?, id, state),
        Item::Single(single) => single,
    };
    Ok(match single {
        Single::String => Value::String(state.text(value)?),
        Single::Bytes => {
            let bytes = value.bytes()?;
            state.budget.text(bytes.len().div_ceil(3) * 4)?;
            Value::String(STANDARD.encode(bytes))
        }
        // The low bits count, as in Go.
        Single::Int32 => Value::from(value.number()? as i32),
        Single::Int64 => Value::from(value.number()?.cast_signed()),
        Single::Boolean => Value::Bool(value.number()? != 0),
        Single::Double => {
            let number = value.double()?;
            // JSON cannot express these, so kube-apiserver could not return them.
            if !number.is_finite() {
                return Err(fault("a floating-point number that JSON cannot write"));
            }
            double(number)
        }
        _ => special::read(value.bytes()?, single, state)?,
    })
}
