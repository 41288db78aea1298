//! Correlation of parts of the new object with parts of the old one.

use std::collections::HashMap;

use serde_json::Value;

use crate::structural::{ListType, Schema, Type};

/// A value with its old value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Correlated<'a> {
    schema: Schema<'a>,
    new: &'a Value,
    old: &'a Value,
}

impl<'a> Correlated<'a> {
    pub(crate) fn new(schema: Schema<'a>, new: &'a Value, old: &'a Value) -> Self {
        Self { schema, new, old }
    }

    /// Returns the old value.
    pub(crate) fn old(self) -> &'a Value {
        self.old
    }

    /// Returns the correlated values under a key.
    pub(crate) fn key(self, name: &str) -> Option<Self> {
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        Some(Self { schema: self.schema.field(name)?, new, old })
    }

    /// Returns the items of the new list, each correlated with the old item of the same key, if
    /// any.
    pub(crate) fn items(self) -> Vec<Option<Self>> {
        let (Some(new), Some(old)) = (self.new.as_array(), self.old.as_array()) else { return Vec::new() };
        let (Some(schema), Some(ListType::Map)) = (self.schema.items(), self.schema.list_type()) else {
            return Vec::new();
        };
        let keys = self.schema.list_map_keys();
        if self.schema.ty() != Type::Array || keys.is_empty() {
            return Vec::new();
        }
        let mut by_key: HashMap<String, &Value> = HashMap::new();
        for item in old {
            if let Some(key) = composite_key(item, keys) {
                by_key.entry(key).or_insert(item);
            }
        }
        let correlate = |item| {
            let old = *by_key.get(&composite_key(item, keys)?)?;
            Some(Self { schema, new: item, old })
        };
        new.iter().map(correlate).collect()
    }

    /// Returns true if new and old value are equal. Items of lists of type map may be reordered;
    /// values without schema count as changed.
    pub(crate) fn is_unchanged(self) -> bool {
        match (self.new, self.old) {
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new.keys().all(|name| self.key(name).is_some_and(Self::is_unchanged))
            }
            (Value::Array(new), Value::Array(old)) => {
                let is_keyed = self.schema.list_type() == Some(ListType::Map);
                match new.len() == old.len() {
                    false => false,
                    true if is_keyed && !new.is_empty() => {
                        let items = self.items();
                        items.len() == new.len()
                            && items.into_iter().all(|item| item.is_some_and(Self::is_unchanged))
                    }
                    true => new == old,
                }
            }
            (new, old) => new == old,
        }
    }
}

/// Returns the key of an item of a list of type map.
fn composite_key(item: &Value, keys: &[Box<str>]) -> Option<String> {
    let mut all = String::new();
    for key in keys {
        match item.as_object()?.get(&**key)? {
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
            single => {
                all.push('\0');
                all.push_str(&single.to_string());
            }
        }
    }
    Some(all)
}
