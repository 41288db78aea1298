//! A validation error of one field, like `field.Error` in apimachinery.

use std::fmt;

use serde_json::Value;

use super::format::{json_text, quoted, write_json_string};
use super::{Path, Ratchet};
use crate::go_json;

/// The type of a field error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The field is required.
    Required,
    /// The value is malformed or out of range.
    Invalid,
    /// The value is not among the allowed ones.
    NotSupported,
    /// The field may not be set in this context.
    Forbidden,
    /// The value is longer than allowed.
    TooLong,
    /// The value is shorter than allowed.
    TooShort,
    /// The list has more items than allowed.
    TooMany,
    /// The list has fewer items than required.
    TooFew,
    /// The value occurs more than once.
    Duplicate,
    /// The referenced object or value does not exist.
    NotFound,
    /// The value has the wrong type.
    TypeInvalid,
    /// The server failed to validate the field.
    InternalError,
}

impl ErrorKind {
    /// Returns the `reason` of the cause in a `Status`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooShort => "FieldValueTooShort",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::InternalError => "InternalError",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooShort => "Too short",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
            Self::InternalError => "Internal error",
        }
    }

    /// Returns true if the message contains the value.
    fn shows_value(self) -> bool {
        !matches!(
            self,
            Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::InternalError
        )
    }
}

/// The rejected value, in the form in which the message prints it.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// Not printed.
    Omitted,
    /// A plain string, quoted as in Go.
    Text(String),
    /// Printed in decimal.
    Int(i64),
    /// Printed in Go's shortest form.
    Float(f64),
    /// Printed as `true` or `false`.
    Bool(bool),
    /// JSON text, printed unchanged: objects, lists, null, and every string that has a named type
    /// in kube-apiserver.
    Json(String),
}

impl BadValue {
    /// Prints any value as JSON. kube-apiserver prints strings of a named type (an operator, a uid,
    /// a policy) this way; the escapes differ from those of [`BadValue::Text`].
    pub fn json(value: &Value) -> Self {
        Self::Json(json_text(value))
    }

    /// Prints a string of a named type; see [`BadValue::json`].
    pub fn named(text: &str) -> Self {
        let mut json = String::with_capacity(text.len() + 2);
        write_json_string(&mut json, text);
        Self::Json(json)
    }
}

impl From<&str> for BadValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for BadValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for BadValue {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<i32> for BadValue {
    fn from(number: i32) -> Self {
        Self::Int(number.into())
    }
}

impl From<f64> for BadValue {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<bool> for BadValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&Value> for BadValue {
    fn from(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text.clone()),
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Self::Int(integer),
                (None, Some(float)) => Self::Float(float),
                (None, None) => Self::json(value),
            },
            Value::Null | Value::Array(_) | Value::Object(_) => Self::json(value),
        }
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Omitted => Ok(()),
            Self::Text(text) => quoted(text).fmt(f),
            Self::Int(number) => number.fmt(f),
            Self::Float(number) => f.write_str(&go_json::general_text(*number)),
            Self::Bool(value) => value.fmt(f),
            Self::Json(json) => f.write_str(json),
        }
    }
}

/// A validation error of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The type of the error.
    pub kind: ErrorKind,
    /// The path of the field.
    pub field: String,
    /// The rejected value.
    pub bad_value: BadValue,
    /// Further explanation; may be empty.
    pub detail: String,
    /// The condition under which an update may keep the error, if any.
    pub ratchet: Option<Ratchet>,
}

impl FieldError {
    /// The field is required.
    pub fn required(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::build(ErrorKind::Required, path, BadValue::Omitted, detail.into())
    }

    /// The value is malformed or out of range.
    pub fn invalid(path: &Path<'_>, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::build(ErrorKind::Invalid, path, value.into(), detail.into())
    }

    /// The value has the wrong type.
    pub fn type_invalid(path: &Path<'_>, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::build(ErrorKind::TypeInvalid, path, value.into(), detail.into())
    }

    /// The value is not among the allowed ones, which the message lists in the given order.
    pub fn not_supported(path: &Path<'_>, value: impl Into<BadValue>, allowed: &[&str]) -> Self {
        let mut detail = String::new();
        for (index, value) in allowed.iter().enumerate() {
            detail.push_str(if index == 0 { "supported values: " } else { ", " });
            detail.push_str(&quoted(value).to_string());
        }
        Self::build(ErrorKind::NotSupported, path, value.into(), detail)
    }

    /// The field may not be set in this context.
    pub fn forbidden(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::build(ErrorKind::Forbidden, path, BadValue::Omitted, detail.into())
    }

    /// The value has more bytes than allowed.
    pub fn too_long(path: &Path<'_>, max_bytes: usize) -> Self {
        let detail = format!("may not be more than {max_bytes} {}", plural(max_bytes, "byte", "bytes"));
        Self::build(ErrorKind::TooLong, path, BadValue::Omitted, detail)
    }

    /// The value has more characters than allowed.
    pub fn too_long_characters(path: &Path<'_>, max: usize) -> Self {
        let detail = format!("may not be more than {max} {}", plural(max, "character", "characters"));
        Self::build(ErrorKind::TooLong, path, BadValue::Omitted, detail)
    }

    /// The value has fewer characters than required.
    pub fn too_short(path: &Path<'_>, min: usize) -> Self {
        let detail = format!("must be at least {min} {}", plural(min, "character", "characters"));
        Self::build(ErrorKind::TooShort, path, BadValue::Omitted, detail)
    }

    /// The list has more items than allowed.
    pub fn too_many(path: &Path<'_>, found: usize, max: usize) -> Self {
        let detail = format!("must have at most {max} {}", plural(max, "item", "items"));
        Self::build(ErrorKind::TooMany, path, BadValue::Json(found.to_string()), detail)
    }

    /// The list has fewer items than required.
    pub fn too_few(path: &Path<'_>, found: usize, min: usize) -> Self {
        let detail = format!("must have at least {min} {}", plural(min, "item", "items"));
        Self::build(ErrorKind::TooFew, path, BadValue::Json(found.to_string()), detail)
    }

    /// The value occurs more than once.
    pub fn duplicate(path: &Path<'_>, value: impl Into<BadValue>) -> Self {
        Self::build(ErrorKind::Duplicate, path, value.into(), String::new())
    }

    /// The referenced object or value does not exist.
    pub fn not_found(path: &Path<'_>, value: impl Into<BadValue>) -> Self {
        Self::build(ErrorKind::NotFound, path, value.into(), String::new())
    }

    /// The server failed to validate the field.
    pub fn internal(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::build(ErrorKind::InternalError, path, BadValue::Omitted, detail.into())
    }

    fn build(kind: ErrorKind, path: &Path<'_>, bad_value: BadValue, detail: String) -> Self {
        Self { kind, field: path.to_string(), bad_value, detail, ratchet: None }
    }

    /// Sets the condition under which an update may keep the error, unless one is set.
    #[must_use]
    pub fn unless(self, ratchet: Ratchet) -> Self {
        Self { ratchet: self.ratchet.or(Some(ratchet)), ..self }
    }

    /// Returns the message without the field's path, for the cause in a `Status`.
    pub fn body(&self) -> String {
        let mut body = self.kind.title().to_owned();
        if self.kind.shows_value() && self.bad_value != BadValue::Omitted {
            body.push_str(": ");
            body.push_str(&self.bad_value.to_string());
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(error: FieldError, expected: &str) {
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn message_of_each_error_kind_matches_kube_apiserver() {
        let path = &Path::root("spec.a");
        check(FieldError::required(path, ""), "spec.a: Required value");
        check(FieldError::required(path, "why"), "spec.a: Required value: why");
        check(FieldError::invalid(path, "v", "why"), "spec.a: Invalid value: \"v\": why");
        check(FieldError::type_invalid(path, 1_i64, "why"), "spec.a: Invalid value: 1: why");
        check(
            FieldError::not_supported(path, "v", &["A", "B"]),
            "spec.a: Unsupported value: \"v\": supported values: \"A\", \"B\"",
        );
        check(FieldError::not_supported(path, "v", &[]), "spec.a: Unsupported value: \"v\"");
        check(FieldError::forbidden(path, "why"), "spec.a: Forbidden: why");
        check(FieldError::too_long(path, 1), "spec.a: Too long: may not be more than 1 byte");
        check(FieldError::too_long(path, 63), "spec.a: Too long: may not be more than 63 bytes");
        check(
            FieldError::too_long_characters(path, 9),
            "spec.a: Too long: may not be more than 9 characters",
        );
        check(FieldError::too_short(path, 1), "spec.a: Too short: must be at least 1 character");
        check(FieldError::too_many(path, 3, 1), "spec.a: Too many: 3: must have at most 1 item");
        check(FieldError::too_few(path, 0, 2), "spec.a: Too few: 0: must have at least 2 items");
        check(FieldError::duplicate(path, "v"), "spec.a: Duplicate value: \"v\"");
        check(FieldError::not_found(path, "v"), "spec.a: Not found: \"v\"");
        check(FieldError::internal(path, "why"), "spec.a: Internal error: why");
    }

    #[test]
    fn bad_value_of_each_type_is_formatted_as_in_go() {
        let path = &Path::root("a");
        for (value, expected) in [
            (json!("x<y"), "a: Invalid value: \"x<y\": no"),
            (json!(-3), "a: Invalid value: -3: no"),
            (json!(1.5), "a: Invalid value: 1.5: no"),
            (json!(true), "a: Invalid value: true: no"),
            (json!(null), "a: Invalid value: null: no"),
            (json!(["x<y"]), "a: Invalid value: [\"x\\u003cy\"]: no"),
            (json!({"b": 1, "a": {}}), "a: Invalid value: {\"a\":{},\"b\":1}: no"),
        ] {
            check(FieldError::invalid(path, &value, "no"), expected);
        }
        check(FieldError::invalid(path, BadValue::named("x<y"), "no"), "a: Invalid value: \"x\\u003cy\": no");
    }
}
