//! What stands in an object where a client wrote nothing: upstream's types write some fields
//! even then, such as `status: {}`, and leave out others however they were written.

use coracle_meta::budget::{BudgetError, DecodeBudget, entry_bytes, heap_bytes};
use serde_json::{Map, Value, json};

use crate::schema::{Field, Item, Shape, Single, TypeId, types};

/// Puts a field into an object unless it is one that is left out when it is like this.
pub(super) fn insert(object: &mut Map<String, Value>, field: &Field, value: Value) {
    let value = if value.is_null() { of_field(field) } else { value };
    if value.is_null() && field.omit_empty {
        return;
    }
    if !field.pointer && is_empty(field, &value) {
        if field.omit_empty {
            // No entries at all are not the same as nothing said: they ask to forget who owns what, and
            // so does one that says nothing.
            if field.name == "managedFields" && value.is_array() {
                object.insert(field.name.to_owned(), json!([{}]));
            }
            return;
        }
        if is_list_like(field) && !field.keep_empty {
            object.insert(field.name.to_owned(), Value::Null);
            return;
        }
    }
    object.insert(field.name.to_owned(), value);
}

/// Whether a field that has this value is left as it is by [`insert`].
pub(super) fn is_kept(field: &Field, value: &Value) -> bool {
    if value.is_null() {
        return !field.omit_empty && of_field(field).is_null();
    }
    let is_left_out = !field.pointer && is_empty(field, value);
    !is_left_out || !(field.omit_empty || is_list_like(field) && !field.keep_empty)
}

/// Whether a list is there and has no items, in a field that is `null` without. Whoever creates an object
/// with one owns the field, though it is stored as if it had not been there; see [`settle`].
pub(super) fn is_told(field: &Field, value: &Value) -> bool {
    let empty_list = value.as_array().is_some_and(Vec::is_empty);
    empty_list && !field.omit_empty && !field.keep_empty && is_list_like(field)
}

/// Turns the lists of an object that have no items into what is stored of them, once it is known who owns
/// them. Only the object's own fields may have such a list; further down they are like this when read.
pub fn settle(object: &mut Value, id: TypeId) {
    let Value::Object(fields) = object else { return };
    for field in &types().get(id).fields {
        if let Some(value) = fields.get_mut(field.name)
            && is_told(field, value)
        {
            *value = Value::Null;
        }
    }
}

/// Adds the fields that are written even when nobody set them. Returns the memory that their values take.
pub(super) fn complete(object: &mut Map<String, Value>, id: TypeId) -> usize {
    let mut bytes = 0;
    for field in &types().get(id).fields {
        if !field.omit_empty && !object.contains_key(field.name) {
            let value = of_field(field);
            bytes += heap_bytes(&value);
            object.insert(field.name.to_owned(), value);
        }
    }
    bytes
}

/// Charges the fields of an object of a type: their places and names, and the values of those that were added.
pub(super) fn charge_fields(
    budget: &mut DecodeBudget,
    object: &Map<String, Value>,
    added_bytes: usize,
) -> Result<(), BudgetError> {
    let fields: usize = object.keys().enumerate().map(|(index, key)| entry_bytes(index, key.len())).sum();
    budget.charge(fields + added_bytes)
}

/// What stands in a field of a type that nobody has written, if anything does.
pub fn unset_field(id: TypeId, name: &str) -> Option<Value> {
    let field = types().get(id).fields.iter().find(|field| field.name == name)?;
    (!field.omit_empty).then(|| of_field(field))
}

/// The value of a field that is not there.
fn of_field(field: &Field) -> Value {
    match field.shape {
        _ if field.pointer || field.omit_empty => Value::Null,
        Shape::List(_) | Shape::Map(_) | Shape::One(Item::Single(Single::Bytes | Single::Strings)) => {
            Value::Null
        }
        Shape::One(item) => of_item(item),
    }
}

/// The value of an item, of a list or map for example, that is there but was not told.
pub(super) fn of_item(item: Item) -> Value {
    match item {
        Item::Struct(id) => {
            let mut object = Map::new();
            // The caller that builds the value charges it as a whole.
            let _bytes = complete(&mut object, id);
            Value::Object(object)
        }
        Item::Single(Single::String | Single::Bytes) => Value::from(""),
        Item::Single(Single::Strings) => Value::Array(Vec::new()),
        Item::Single(Single::Int32 | Single::Int64 | Single::IntOrString | Single::Double) => Value::from(0),
        Item::Single(Single::Boolean | Single::SchemaOrBool) => Value::from(false),
        Item::Single(Single::Quantity) => Value::from("0"),
        Item::Single(_) => Value::Null,
    }
}

fn is_empty(field: &Field, value: &Value) -> bool {
    match (field.shape, value) {
        (_, Value::Array(items)) => items.is_empty(),
        (Shape::Map(_), Value::Object(fields)) => fields.is_empty(),
        (Shape::One(Item::Single(Single::String | Single::Bytes)), Value::String(text)) => text.is_empty(),
        (Shape::One(Item::Single(Single::Int32 | Single::Int64 | Single::Double)), Value::Number(number)) => {
            number.as_f64() == Some(0.0)
        }
        (Shape::One(Item::Single(Single::Boolean)), Value::Bool(yes)) => !yes,
        _ => false,
    }
}

fn is_list_like(field: &Field) -> bool {
    matches!(field.shape, Shape::List(_) | Shape::Map(_) | Shape::One(Item::Single(Single::Strings)))
}
