//! Validation and mutation of single fields, shared by the kinds of controllers, with kube-apiserver's messages.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::{Map, Value};

use crate::kinds::rules;
use crate::view;

/// Requires a number that is not negative.
pub fn non_negative(object: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    rules::not_negative(&path.child(field), view::integer(object, &[field]), errors);
}

/// Requires numbers that are not negative.
pub fn all_non_negative(object: &Value, fields: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    for field in fields {
        non_negative(object, field, path, errors);
    }
}

/// Requires a count that does not exceed another one of the same status.
pub fn at_most(status: &Value, field: &str, limit: &str, detail: &str, errors: &mut ErrorList) {
    let found = count(status, field);
    if found > count(status, limit) {
        errors.push(FieldError::invalid(&Path::root("status").child(field), found, detail));
    }
}

/// Rejects a decrement of a count.
pub fn not_decremented(new: &Value, old: &Value, field: &str, errors: &mut ErrorList) {
    let Some(before) = view::integer(old, &["status", field]) else { return };
    let now = view::integer(new, &["status", field]);
    if now.is_none_or(|now| now < before) {
        let path = Path::root("status");
        errors.push(FieldError::invalid(&path.child(field), now.unwrap_or(0), "cannot be decremented"));
    }
}

/// The number in a field; 0 if absent.
pub fn count(object: &Value, field: &str) -> i64 {
    view::integer(object, &[field]).unwrap_or(0)
}

/// The object in a field, which is created if absent.
pub fn ensure<'a>(object: &'a mut Value, field: &str) -> &'a mut Value {
    match object {
        Value::Object(fields) => fields.entry(field).or_insert_with(|| Value::Object(Map::new())),
        other => other,
    }
}

/// Sets a string if it is absent or empty.
pub fn default_text(object: &mut Value, field: &str, text: &str) {
    if view::text(object, &[field]).is_empty() {
        set(object, field, text.into());
    }
}

/// Sets a field of an object.
pub fn set(object: &mut Value, field: &str, value: Value) {
    if let Value::Object(fields) = object {
        fields.insert(field.to_owned(), value);
    }
}

/// Copies a field from `old` to `new`, or removes it if `old` does not have it.
pub fn carry_over(new: &mut Value, old: &Value, field: &str) {
    if let Value::Object(fields) = new {
        match old.get(field) {
            Some(value) => fields.insert(field.to_owned(), value.clone()),
            None => fields.remove(field),
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn decremented_counts_are_rejected() {
        let check = |new: Value, old: Value| {
            let mut errors = ErrorList::new();
            not_decremented(&json!({"status": new}), &json!({"status": old}), "collisionCount", &mut errors);
            errors.to_string()
        };
        assert_eq!(check(json!({"collisionCount": 2}), json!({"collisionCount": 1})), "");
        assert_eq!(check(json!({"collisionCount": 2}), json!({})), "");
        let message = "status.collisionCount: Invalid value: 0: cannot be decremented";
        assert_eq!(check(json!({}), json!({"collisionCount": 1})), message);
    }
}
