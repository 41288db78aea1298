//! Uniqueness of list items: sets, and lists of type map.

use std::collections::HashMap;

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::{Map, Value};

use crate::Structural;
use crate::structural::{ListType, Schema};

impl Structural {
    /// Checks that the items of sets are unique, and the keys of items of lists of type map.
    pub fn validate_lists(&self, object: &Value, errors: &mut ErrorList) {
        if object.is_object() {
            validate(object, self.root(), &Path::NIL, errors);
        }
    }
}

fn validate(value: &Value, schema: Schema<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if !schema.has_keyed_lists() {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                // kube-apiserver checks both if both are specified.
                if let Some(additional) = schema.additional().schema() {
                    validate(field, additional, &path.key(name), errors);
                }
                if let Some(property) = schema.property(name) {
                    validate(field, property, &path.child(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type() {
                Some(ListType::Set) => validate_set(items, path, errors),
                Some(ListType::Map) => validate_map(items, schema.list_map_keys(), path, errors),
                Some(ListType::Atomic) | None => {}
            }
            let Some(schema) = schema.items() else { return };
            for (index, item) in items.iter().enumerate() {
                validate(item, schema, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

/// Lists up to this length are compared pairwise, which is cheaper than hashing.
const SHORT_LIST: usize = 16;

/// Fast path: returns true if the list is short and no two items are equal. Otherwise items are
/// compared by their JSON text.
fn all_differ(items: &[Value], are_equal: impl Fn(&Value, &Value) -> bool) -> bool {
    let differs = |at: usize| !items[..at].iter().any(|other| are_equal(other, &items[at]));
    items.len() <= SHORT_LIST && (1..items.len()).all(differs)
}

fn validate_set(items: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    if all_differ(items, |one, other| one == other) {
        return;
    }
    let texts = items.iter().map(Value::to_string);
    for index in repeated(texts) {
        errors.push(FieldError::duplicate(&path.index(index), &items[index]));
    }
}

fn validate_map(items: &[Value], keys: &[Box<str>], path: &Path<'_>, errors: &mut ErrorList) {
    let other = items.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null());
    if let Some((index, item)) = other {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(&path.index(index), item, detail));
        return;
    }
    if all_differ(items, |one, other| keys.iter().all(|key| one.get(&**key) == other.get(&**key))) {
        return;
    }
    let keyed = |item: &Value| {
        let keys = keys.iter().filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
        Value::Object(Map::from_iter(keys))
    };
    let keyed: Vec<Value> = items.iter().map(keyed).collect();
    for index in repeated(keyed.iter().map(Value::to_string)) {
        errors.push(FieldError::duplicate(&path.index(index), &keyed[index]));
    }
}

/// Returns the index of the second occurrence of each repeated text; further occurrences are not
/// reported.
fn repeated(texts: impl Iterator<Item = String>) -> Vec<usize> {
    let mut times: HashMap<String, usize> = HashMap::new();
    let mut second = Vec::new();
    for (index, text) in texts.enumerate() {
        let times = times.entry(text).or_default();
        *times += 1;
        if *times == 2 {
            second.push(index);
        }
    }
    second
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(list: Value, object: Value) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"l": list}});
        let mut errors = ErrorList::new();
        Structural::parse(&schema).unwrap().validate_lists(&object, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn repeated_item_is_reported_once() {
        let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}});
        assert_eq!(messages(set, json!({"l": [1, 2, 1, 1]})), ["l[2]: Duplicate value: 1"]);
        let map = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
            "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}});
        let found = messages(map.clone(), json!({"l": [{"a": "1", "c": 1}, {"a": "1", "c": 2}, null]}));
        assert_eq!(found, ["l[1]: Duplicate value: {\"a\":\"1\"}"]);
        let found = messages(map, json!({"l": [3]}));
        assert_eq!(found, ["l[0]: Invalid value: 3: must be an object for an array of list-type map"]);
    }
}
