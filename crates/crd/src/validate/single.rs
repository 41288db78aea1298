//! Checks of types, texts, formats and enumerations.

use coracle_meta::field::{BadValue, json_text};
use serde_json::Value;

use super::Types;
use super::fault::{Fault, Outcome};
use super::number::is_json_integer;
use super::place::Place;
use crate::structural::{Facet, Schema, Type};

/// The type and the format that a value has by itself.
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
    place: &Place<'_>,
) -> Outcome {
    let passed = Outcome { matches: 1, ..Outcome::default() };
    if value.is_null() {
        let is_refused = types.is_said() && !nullable;
        return if is_refused { Fault::type_invalid(place, types.name(), "null").into() } else { passed };
    }
    let (found, found_format) = type_of(value);
    let is_whole = value.as_f64().is_some_and(|number| found == Type::Number && is_json_integer(number));
    let fits = types.contains(found)
        || (is_whole && types.contains(Type::Integer))
        || (found == Type::Integer && types.contains(Type::Number));
    let is_text_or_list = matches!(found, Type::String | Type::Array);
    if !is_text_or_list && !format.is_empty() && !fits && found_format != format {
        return Fault::type_invalid(place, format, found_format).into();
    }
    let is_numeric = types.contains(Type::Number) || types.contains(Type::Integer);
    if !is_numeric && !format.is_empty() && is_text_or_list {
        return passed;
    }
    if fits { passed } else { Fault::type_invalid(place, types.name(), found.name()).into() }
}

/// The first thing that is wrong with a text; upstream tells no more.
pub(super) fn check_text(text: &str, schema: Schema<'_>, place: &Place<'_>) -> Outcome {
    let facets = schema.facets();
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    for facet in facets {
        match *facet {
            Facet::MaxLength(max) if length() > max => return Fault::too_long(place, max).into(),
            _ => {}
        }
    }
    for facet in facets {
        match *facet {
            Facet::MinLength(min) if length() < min => {
                let message = format!("{place} in body should be at least {min} chars long");
                return Fault::invalid(place, text, message).into();
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
        let message = format!("{place} in body should match '{pattern}{problem}'");
        return Fault::invalid(place, text, message).into();
    }
    Outcome::default()
}

pub(super) fn check_format(text: &str, format: &str, place: &Place<'_>) -> Outcome {
    if crate::format::matches(format, text) {
        Outcome::default()
    } else {
        Fault::type_invalid(place, format, text).into()
    }
}

pub(super) fn check_enum(value: &Value, schema: Schema<'_>, place: &Place<'_>) -> Outcome {
    for facet in schema.facets() {
        let Facet::Enum(allowed) = facet else { continue };
        if !allowed.iter().any(|allowed| is_enum_value(value, allowed)) {
            let allowed = allowed.iter().map(|allowed| match allowed {
                Value::String(text) => text.clone(),
                other => json_text(other),
            });
            return Fault::not_supported(place, BadValue::from(value), allowed.collect()).into();
        }
    }
    Outcome::default()
}

/// Whether a value becomes an allowed one when it is converted to its type, as Go converts. A number
/// is no text here, whatever Go says: it would be a character, and its type is refused anyway.
fn is_enum_value(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(allowed)) => match (value.as_i64(), allowed.as_i64()) {
            (Some(value), Some(allowed)) => value == allowed,
            (None, Some(allowed)) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "Go cuts off what is after the point, too"
                )]
                let cut = value.as_f64().map(|value| value as i64);
                cut == Some(allowed)
            }
            (_, None) => value.as_f64() == allowed.as_f64(),
        },
        (value, allowed) => value == allowed,
    }
}
