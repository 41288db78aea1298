//! Type conversions: `int(x)`, `string(x)` and so on.

use crate::EvalError;
use crate::types::Type;

use super::{Timestamp, Value, format_double, parse_go_duration};

type Flow<'d> = Result<Value<'d>, EvalError>;

/// Converts a value to another type. `None` if there is no overload for its type.
pub(crate) fn convert<'d>(value: &Value<'d>, target: &Type) -> Option<Flow<'d>> {
    Some(match target {
        Type::Int => to_int(value)?,
        Type::Uint => to_uint(value)?,
        Type::Double => to_double(value)?,
        Type::String => to_string(value)?,
        Type::Bool => match value {
            Value::Bool(_) => Ok(value.clone()),
            Value::String(text) => or_conversion_error(parse_bool(text.as_str()), target),
            _ => return None,
        },
        Type::Bytes => match value {
            Value::Bytes(_) => Ok(value.clone()),
            Value::String(text) => Ok(Value::Bytes(text.as_str().as_bytes().into())),
            _ => return None,
        },
        Type::Duration => match value {
            Value::Duration(_) => Ok(value.clone()),
            // The overload is declared but always fails.
            Value::Int(_) => {
                Err(EvalError::failed("type conversion error from 'int' to 'google.protobuf.Duration'"))
            }
            Value::String(text) => {
                or_conversion_error(parse_go_duration(text.as_str()).map(Value::Duration), target)
            }
            _ => return None,
        },
        Type::Timestamp => match value {
            Value::Timestamp(_) => Ok(value.clone()),
            Value::Int(seconds) => Timestamp::new(*seconds, 0).map(Value::Timestamp),
            Value::String(text) => match Timestamp::parse(text.as_str()) {
                Some(point) => point.map(Value::Timestamp),
                None => or_conversion_error(None, target),
            },
            _ => return None,
        },
        _ => return None,
    })
}

fn or_conversion_error<'d>(value: Option<Value<'d>>, target: &Type) -> Flow<'d> {
    let message = || format!("type conversion error from 'string' to '{}'", target.name());
    value.ok_or_else(|| EvalError::failed(message()))
}

fn parse_bool<'d>(text: &str) -> Option<Value<'d>> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(Value::Bool(true)),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(Value::Bool(false)),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked; fractions are cut off")]
#[expect(clippy::cast_precision_loss, reason = "the bounds are exact powers of two or rounded outwards")]
fn to_int<'d>(value: &Value<'d>) -> Option<Flow<'d>> {
    let overflow = || EvalError::failed("integer overflow");
    Some(match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(number) => i64::try_from(*number).map(Value::Int).map_err(|_| overflow()),
        Value::Double(number) => {
            let fits = *number > i64::MIN as f64 && *number < i64::MAX as f64;
            if fits { Ok(Value::Int(*number as i64)) } else { Err(overflow()) }
        }
        Value::Duration(span) => Ok(Value::Int(span.0)),
        Value::Timestamp(point) => Ok(Value::Int(point.seconds)),
        Value::String(text) => or_conversion_error(text.as_str().parse().ok().map(Value::Int), &Type::Int),
        _ => return None,
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
#[expect(clippy::cast_precision_loss, reason = "the bound is an exact power of two")]
fn to_uint<'d>(value: &Value<'d>) -> Option<Flow<'d>> {
    let overflow = || EvalError::failed("unsigned integer overflow");
    Some(match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(number) => u64::try_from(*number).map(Value::Uint).map_err(|_| overflow()),
        Value::Double(number) => {
            let fits = *number >= 0.0 && *number < u64::MAX as f64;
            if fits { Ok(Value::Uint(*number as u64)) } else { Err(overflow()) }
        }
        Value::String(text) => {
            let digits = Some(text.as_str()).filter(|text| !text.starts_with('+'));
            or_conversion_error(digits.and_then(|digits| digits.parse().ok()).map(Value::Uint), &Type::Uint)
        }
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "that is what the conversion does")]
fn to_double<'d>(value: &Value<'d>) -> Option<Flow<'d>> {
    Some(match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => {
            or_conversion_error(parse_double(text.as_str()).map(Value::Double), &Type::Double)
        }
        _ => return None,
    })
}

fn parse_double(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    let named = text.contains(['i', 'I']);
    (number.is_finite() || number.is_nan() || named).then_some(number)
}

fn to_string<'d>(value: &Value<'d>) -> Option<Flow<'d>> {
    Some(Ok(match value {
        Value::String(_) => value.clone(),
        Value::Bool(truth) => Value::text(if *truth { "true" } else { "false" }),
        Value::Int(number) => Value::string(number.to_string()),
        Value::Uint(number) => Value::string(number.to_string()),
        Value::Double(number) => Value::string(format_double(*number)),
        Value::Timestamp(point) => Value::string(point.to_string()),
        Value::Duration(span) => Value::string(span.to_string()),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::string(text),
            Err(_) => {
                return Some(Err(EvalError::failed("invalid UTF-8 in bytes, cannot convert to string")));
            }
        },
        _ => return None,
    }))
}
