//! Accessors for fields of untyped objects that may be absent.

use serde_json::Value;

/// Returns the value at a path of field names. A `null` counts as absent: some fields are
/// serialized without a value.
pub fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, name| value.get(name)).filter(|value| !value.is_null())
}

/// Returns the string at a path, or an empty one.
pub fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the integer at a path.
pub fn integer(object: &Value, path: &[&str]) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

/// Returns true if the value at a path is `true`.
pub fn is_true(object: &Value, path: &[&str]) -> bool {
    at(object, path).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the items of the list at a path, or an empty slice.
pub fn items<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Iterates over the fields of the object at a path; empty if there is none.
pub fn fields<'a>(object: &'a Value, path: &[&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
    at(object, path).and_then(Value::as_object).into_iter().flatten()
}

/// Sets a field of an object if it is absent or `null`.
pub fn set_default(object: &mut Value, name: &str, value: impl FnOnce() -> Value) {
    if let Value::Object(fields) = object
        && fields.get(name).is_none_or(Value::is_null)
    {
        fields.insert(name.to_owned(), value());
    }
}

/// Returns `metadata.name`.
pub fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}
