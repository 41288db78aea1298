//! Validation of types, strings, formats and enums.

use coracle_meta::field::{BadValue, json_text};
use serde_json::Value;

use super::Types;
use super::number::is_json_integer;
use super::path::ValuePath;
use super::violation::{Outcome, Violation};
use crate::structural::{Facet, Schema, Type};

/// Returns the type and format of a value.
fn type_of(value: &Value) -> (Type, &'static str) {
    match value {
        Value::Null => (Type::Other, ""),
        Value::Bool(_) => (Type::Boolean, ""),
        Value::Number(number) if number.is_i64() => (Type::Integer, "int64"),
        Value::Number(_) => (Type::Number, "float64"),
        Value::String(_) => (Type::String, ""),
        Value::Array(_) => (Type::Array, ""),
        Value::Object(_) => (Type::Object, ""),
    }
}

pub(super) fn check_type(
    value: &Value,
    types: Types,
    format: &str,
    nullable: bool,
    path: &ValuePath<'_>,
) -> Outcome {
    let passed = Outcome { matches: 1, ..Outcome::default() };
    if value.is_null() {
        let is_rejected = types.is_specified() && !nullable;
        return if is_rejected { Violation::type_invalid(path, types.name(), "null").into() } else { passed };
    }
    let (found, found_format) = type_of(value);
    let is_whole = value.as_f64().is_some_and(|number| found == Type::Number && is_json_integer(number));
    let fits = types.contains(found)
        || (is_whole && types.contains(Type::Integer))
        || (found == Type::Integer && types.contains(Type::Number));
    let is_text_or_list = matches!(found, Type::String | Type::Array);
    if !is_text_or_list && !format.is_empty() && !fits && found_format != format {
        return Violation::type_invalid(path, format, found_format).into();
    }
    let is_numeric = types.contains(Type::Number) || types.contains(Type::Integer);
    if !is_numeric && !format.is_empty() && is_text_or_list {
        return passed;
    }
    if fits { passed } else { Violation::type_invalid(path, types.name(), found.name()).into() }
}

/// Validates a string. Like kube-apiserver, reports only the first violation.
pub(super) fn check_text(text: &str, schema: Schema<'_>, path: &ValuePath<'_>) -> Outcome {
    let facets = schema.facets();
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    for facet in facets {
        match *facet {
            Facet::MaxLength(max) if length() > max => return Violation::too_long(path, max).into(),
            _ => {}
        }
    }
    for facet in facets {
        match *facet {
            Facet::MinLength(min) if length() < min => {
                let message = format!("{path} in body should be at least {min} chars long");
                return Violation::invalid(path, text, message).into();
            }
            _ => {}
        }
    }
    for facet in facets {
        let Facet::Pattern(pattern) = facet else { continue };
        let problem = match crate::pattern::matches(pattern, text) {
            Ok(true) => continue,
            Ok(false) => String::new(),
            Err(invalid) => format!(", but pattern is invalid: {invalid}"),
        };
        let message = format!("{path} in body should match '{pattern}{problem}'");
        return Violation::invalid(path, text, message).into();
    }
    Outcome::default()
}

pub(super) fn check_format(text: &str, format: &str, path: &ValuePath<'_>) -> Outcome {
    if crate::format::matches(format, text) {
        Outcome::default()
    } else {
        Violation::type_invalid(path, format, text).into()
    }
}

pub(super) fn check_enum(value: &Value, schema: Schema<'_>, path: &ValuePath<'_>) -> Outcome {
    for facet in schema.facets() {
        let Facet::Enum(allowed) = facet else { continue };
        if !allowed.iter().any(|allowed| is_enum_value(value, allowed)) {
            let allowed = allowed.iter().map(|allowed| match allowed {
                Value::String(text) => text.clone(),
                other => json_text(other),
            });
            return Violation::not_supported(path, BadValue::from(value), allowed.collect()).into();
        }
    }
    Outcome::default()
}

/// Returns true if a value, converted to the type of the allowed one as Go does, equals it. Numbers
/// are not converted to strings, which in Go would yield a character; their type is rejected
/// anyway.
fn is_enum_value(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(allowed)) => match (value.as_i64(), allowed.as_i64()) {
            (Some(value), Some(allowed)) => value == allowed,
            (None, Some(allowed)) => {
                #[expect(clippy::cast_possible_truncation, reason = "Go truncates the fraction as well")]
                let truncated = value.as_f64().map(|value| value as i64);
                truncated == Some(allowed)
            }
            (_, None) => value.as_f64() == allowed.as_f64(),
        },
        (value, allowed) => value == allowed,
    }
}
