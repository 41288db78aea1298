//! Pruning of unknown fields.

use std::fmt::{self, Write as _};

use serde_json::Value;

use crate::Structural;
use crate::structural::Schema;

impl Structural {
    /// Drops unspecified fields, except where the schema preserves them. Does not change
    /// `apiVersion`, `kind` and `metadata`, at the root and in embedded objects. Returns the paths
    /// of dropped fields, sorted.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        Self::prune_at(self.root(), object, true)
    }

    /// Fast path: returns true if there is nothing to prune and no null. That holds for most
    /// objects, and checking is cheaper than modifying.
    pub(crate) fn is_plain(&self, object: &Value) -> bool {
        is_plain(object, self.root(), true)
    }

    pub(crate) fn prune_at(schema: Schema<'_>, value: &mut Value, is_whole_object: bool) -> Vec<String> {
        let mut pruner = Pruner::default();
        pruner.value(value, Some(schema), is_whole_object);
        pruner.unknown.sort_unstable();
        pruner.unknown
    }
}

fn is_plain(value: &Value, schema: Schema<'_>, is_root: bool) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => {
            let is_whole = is_root || schema.is_embedded_resource();
            fields.iter().all(|(name, field)| match schema.field(name) {
                _ if is_whole && is_object_field(name) => has_no_nulls(field),
                Some(schema) => is_plain(field, schema, false),
                None => false,
            })
        }
        Value::Array(items) => {
            schema.items().is_some_and(|schema| items.iter().all(|item| is_plain(item, schema, false)))
        }
        _ => true,
    }
}

fn has_no_nulls(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => fields.values().all(has_no_nulls),
        Value::Array(items) => items.iter().all(has_no_nulls),
        _ => true,
    }
}

pub(crate) fn is_object_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

#[derive(Default)]
struct Pruner {
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    /// Prunes a value; its own schema decides whether fields are preserved.
    fn value(&mut self, value: &mut Value, schema: Option<Schema<'_>>, is_root: bool) {
        let preserves = schema.is_some_and(Schema::preserves_unknown);
        self.fields(value, schema, preserves, is_root);
    }

    fn fields(&mut self, value: &mut Value, schema: Option<Schema<'_>>, preserves: bool, is_root: bool) {
        match value {
            Value::Object(fields) => {
                let is_whole = is_root || schema.is_some_and(Schema::is_embedded_resource);
                fields.retain(|name, field| self.keep(name, field, schema, preserves, is_whole));
            }
            Value::Array(items) => {
                let schema = schema.and_then(Schema::items);
                if preserves && schema.is_none() {
                    return;
                }
                for (index, item) in items.iter_mut().enumerate() {
                    self.within(format_args!("[{index}]"), |pruner| match preserves {
                        // A preserved list also preserves the fields of its items.
                        true => pruner.fields(item, schema, true, false),
                        false => pruner.value(item, schema, false),
                    });
                }
            }
            _ => {}
        }
    }

    fn keep(
        &mut self,
        name: &str,
        field: &mut Value,
        schema: Option<Schema<'_>>,
        preserves: bool,
        is_whole: bool,
    ) -> bool {
        if is_whole && is_object_field(name) {
            return true;
        }
        let property = schema.and_then(|schema| schema.property(name));
        let is_known = property.is_some() || schema.is_some_and(|schema| schema.additional().is_specified());
        if is_known {
            let below = property.or_else(|| schema?.additional().schema());
            self.within_field(name, |pruner| pruner.value(field, below, false));
        } else if !preserves {
            self.within_field(name, |pruner| pruner.unknown.push(pruner.path.clone()));
        }
        is_known || preserves
    }

    fn within_field(&mut self, name: &str, act: impl FnOnce(&mut Self)) {
        let point = if self.path.is_empty() { "" } else { "." };
        self.within(format_args!("{point}{name}"), act);
    }

    fn within(&mut self, step: fmt::Arguments<'_>, act: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.write_fmt(step).expect("writing to a string cannot fail");
        act(self);
        self.path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_pruned_and_reported() {
        let item = json!({"type": "object", "properties": {"b": {"type": "string"}}});
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "array", "items": item},
            "m": {"type": "object", "additionalProperties": item},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"closed": item}},
        }});
        let mut object = json!({
            "apiVersion": "v1", "kind": "K", "metadata": {"x": 1},
            "a": [{"b": "1", "c": 2}], "m": {"k": {"c": 1}}, "z": 1,
            "open": {"any": {"thing": 1}, "closed": {"c": 1}},
        });
        let unknown = Structural::parse(&schema).unwrap().prune(&mut object);
        assert_eq!(unknown, ["a[0].c", "m.k.c", "open.closed.c", "z"]);
        let expected = json!({
            "apiVersion": "v1", "kind": "K", "metadata": {"x": 1},
            "a": [{"b": "1"}], "m": {"k": {}},
            "open": {"any": {"thing": 1}, "closed": {}},
        });
        assert_eq!(object, expected);
    }
}
