//! Empty and absent fields, as Go's encoder writes them: some fields are always written, such as `status: {}`, and
//! others are omitted when they are empty.

use coracle_meta::budget::{BudgetError, DecodeBudget, entry_bytes, heap_bytes};
use serde_json::{Map, Value, json};

use crate::schema::{Field, Item, Shape, Single, TypeId, types};

/// Inserts a field into an object, unless the field is omitted when it has this value.
pub(super) fn insert(object: &mut Map<String, Value>, field: &Field, value: Value) {
    let value = if value.is_null() { of_field(field) } else { value };
    if value.is_null() && field.omit_empty {
        return;
    }
    if !field.pointer && is_empty(field, &value) {
        if field.omit_empty {
            // An explicitly empty list differs from an absent one: like a list of one empty entry, it clears the
            // field ownership.
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

/// Whether [`insert`] keeps a field with this value unchanged.
pub(super) fn is_kept(field: &Field, value: &Value) -> bool {
    if value.is_null() {
        return !field.omit_empty && of_field(field).is_null();
    }
    let is_left_out = !field.pointer && is_empty(field, value);
    !is_left_out || !(field.omit_empty || is_list_like(field) && !field.keep_empty)
}

/// Whether the value is an explicitly empty list in a field that is `null` when absent. The creator of an object owns
/// such a field, although it is stored as if it were absent; see [`settle`].
pub(super) fn is_told(field: &Field, value: &Value) -> bool {
    let empty_list = value.as_array().is_some_and(Vec::is_empty);
    empty_list && !field.omit_empty && !field.keep_empty && is_list_like(field)
}

/// Replaces explicitly empty lists by their stored form, after field ownership is computed. Only top-level fields may
/// contain such a list; deeper ones are replaced when they are decoded.
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

/// Adds the fields that are always written. Returns the memory of their values.
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

/// Charges the fields of an object of a type: slots and names, and the values of added fields.
pub(super) fn charge_fields(
    budget: &mut DecodeBudget,
    object: &Map<String, Value>,
    added_bytes: usize,
) -> Result<(), BudgetError> {
    let fields: usize = object.keys().enumerate().map(|(index, key)| entry_bytes(index, key.len())).sum();
    budget.charge(fields + added_bytes)
}

/// The value of an unset field of a type, if it is written at all.
pub fn unset_field(id: TypeId, name: &str) -> Option<Value> {
    let field = types().get(id).fields.iter().find(|field| field.name == name)?;
    (!field.omit_empty).then(|| of_field(field))
}

/// The value of an absent field.
fn of_field(field: &Field) -> Value {
    match field.shape {
        _ if field.pointer || field.omit_empty => Value::Null,
        Shape::List(_) | Shape::Map(_) | Shape::One(Item::Single(Single::Bytes | Single::Strings)) => {
            Value::Null
        }
        Shape::One(item) => of_item(item),
    }
}

/// The value of an item, such as of a list or map, that is present without a value.
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
