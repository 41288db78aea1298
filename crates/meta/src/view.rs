//! Reading objects: short ways to fields that may be absent.

use serde_json::Value;

/// The value at a path of field names, if it is there. Some fields are written although they
/// have no value; that is the same as not being there.
pub fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, name| value.get(name)).filter(|value| !value.is_null())
}

/// The text at a path; empty if there is none.
pub fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number at a path.
pub fn integer(object: &Value, path: &[&str]) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

/// Whether there is a `true` at a path.
pub fn is_true(object: &Value, path: &[&str]) -> bool {
    at(object, path).and_then(Value::as_bool).unwrap_or(false)
}

/// The items at a path; none if there is no list.
pub fn items<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The fields at a path; none if there is no object.
pub fn fields<'a>(object: &'a Value, path: &[&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
    at(object, path).and_then(Value::as_object).into_iter().flatten()
}

/// Sets a field of an object where it is absent, or has no value.
pub fn set_default(object: &mut Value, name: &str, value: impl FnOnce() -> Value) {
    if let Value::Object(fields) = object
        && fields.get(name).is_none_or(Value::is_null)
    {
        fields.insert(name.to_owned(), value());
    }
}

/// The object's name.
pub fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}
