//! Defaulting of custom resources.

use serde_json::Value;

use crate::Structural;
use crate::structural::Schema;

impl Structural {
    /// Drops nulls in fields that are neither nullable nor have a default. They count as absent, as
    /// in built-in kinds.
    pub fn drop_nulls(&self, object: &mut Value) {
        drop_nulls(object, self.root());
    }

    /// Sets defaults for absent fields, and for nulls in fields that are not nullable. Idempotent.
    pub fn set_defaults(&self, object: &mut Value) {
        set_defaults(object, self.root());
    }
}

fn drop_nulls(value: &mut Value, schema: Schema<'_>) {
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            let Some(schema) = schema.field(name) else { return true };
            if field.is_null() {
                return schema.is_nullable() || schema.default().is_some();
            }
            drop_nulls(field, schema);
            true
        }),
        Value::Array(items) => {
            if let Some(schema) = schema.items() {
                items.iter_mut().for_each(|item| drop_nulls(item, schema));
            }
        }
        _ => {}
    }
}

fn set_defaults(value: &mut Value, schema: Schema<'_>) {
    if !schema.has_defaults_below() {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, property) in schema.properties() {
                let Some(default) = property.default() else { continue };
                let is_absent =
                    fields.get(name).is_none_or(|field| field.is_null() && !property.is_nullable());
                if is_absent {
                    fields.insert(name.to_owned(), default.clone());
                }
            }
            for (name, field) in fields.iter_mut() {
                if let Some(property) = schema.property(name) {
                    set_defaults(field, property);
                } else if let Some(additional) = schema.additional().schema() {
                    replace_null(field, additional);
                    set_defaults(field, additional);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            for item in items {
                replace_null(item, schema);
                set_defaults(item, schema);
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, schema: Schema<'_>) {
    if let Some(default) = schema.default().filter(|_| value.is_null() && !schema.is_nullable()) {
        *value = default.clone();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_replace_absent_and_null_values() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x"},
            "b": {"type": "string", "default": "x", "nullable": true},
            "c": {"type": "string"},
            "o": {"type": "object", "default": {}, "properties": {"p": {"type": "integer", "default": 1}}},
            "l": {"type": "array", "items": {"type": "object", "properties": {"q": {"type": "integer", "default": 2}}}},
        }});
        let schema = Structural::parse(&schema).unwrap();
        let mut object = json!({"a": null, "b": null, "c": null, "l": [{}, {"q": 3}]});
        schema.drop_nulls(&mut object);
        schema.set_defaults(&mut object);
        let expected = json!({"a": "x", "b": null, "o": {"p": 1}, "l": [{"q": 2}, {"q": 3}]});
        assert_eq!(object, expected);
        schema.set_defaults(&mut object);
        assert_eq!(object, expected);
    }
}
