//! Equality and ordering, also between numbers of different types.

use std::cmp::Ordering;

use crate::EvalError;
use crate::decl::Decl;

use super::list::List;
use super::map::Map;
use super::{MapValue, Value};

/// Returns true if two values are equal.
///
/// # Errors
/// If parts of the values cannot be converted or compared.
pub(crate) fn equal<'d>(left: &Value<'d>, right: &Value<'d>) -> Result<bool, EvalError> {
    Ok(match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Int(left), Value::Int(right)) => left == right,
        (Value::String(left), Value::String(right)) => left.as_str() == right.as_str(),
        (Value::Bytes(left), Value::Bytes(right)) => left == right,
        (Value::Timestamp(left), Value::Timestamp(right)) => left == right,
        (Value::Duration(left), Value::Duration(right)) => left == right,
        (Value::List(left), Value::List(right)) => lists(&left.0, &right.0)?,
        (Value::Map(left), Value::Map(right)) => maps(&left.0, &right.0)?,
        (Value::Type(left), Value::Type(right)) => left.name() == right.name(),
        (Value::Optional(left), Value::Optional(right)) => match (left, right) {
            (Some(left), Some(right)) => equal(left, right)?,
            (None, None) => true,
            _ => false,
        },
        (Value::Object(left), Value::Object(right)) => {
            left.type_name == right.type_name && objects(&left.fields, &right.fields)?
        }
        (Value::Extension(left), Value::Extension(right)) => left.0.equal(&right.0)?,
        // A typed value of the API can only be compared with a value of the same type.
        (left, _) if is_typed(left) => return Err(EvalError::no_such_overload()),
        _ => numbers(left, right) == Some(Ordering::Equal),
    })
}

/// Returns true if the value has a declaration or comes from a library.
fn is_typed(value: &Value<'_>) -> bool {
    match value {
        Value::Extension(_) => true,
        Value::List(list) => list.0.decl().is_some_and(Decl::is_typed),
        Value::Map(MapValue(Map::Json(_, decl))) => decl.is_typed(),
        _ => false,
    }
}

/// Compares two values of types with an order.
///
/// # Errors
/// If the values have no order, or one is NaN.
pub(crate) fn compare(left: &Value<'_>, right: &Value<'_>) -> Result<Ordering, EvalError> {
    Ok(match (left, right) {
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::String(left), Value::String(right)) => left.as_str().cmp(right.as_str()),
        (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
        (Value::Timestamp(left), Value::Timestamp(right)) => left.cmp(right),
        (Value::Duration(left), Value::Duration(right)) => left.cmp(right),
        _ => {
            let is_nan = |value: &Value<'_>| matches!(value, Value::Double(number) if number.is_nan());
            let is_number =
                |value: &Value<'_>| matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_));
            if !is_number(left) || !is_number(right) {
                return Err(EvalError::no_such_overload());
            }
            if is_nan(left) || is_nan(right) {
                return Err(EvalError::failed("NaN values cannot be ordered"));
            }
            numbers(left, right).ok_or_else(EvalError::no_such_overload)?
        }
    })
}

/// Compares numbers; `None` if a value is not a number.
fn numbers(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Uint(left), Value::Uint(right)) => Some(left.cmp(right)),
        (Value::Double(left), Value::Double(right)) => left.partial_cmp(right),
        (Value::Int(left), Value::Uint(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Value::Uint(left), Value::Int(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Value::Double(left), Value::Int(right)) => with_int(*left, *right),
        (Value::Int(left), Value::Double(right)) => with_int(*right, *left).map(Ordering::reverse),
        (Value::Double(left), Value::Uint(right)) => with_uint(*left, *right),
        (Value::Uint(left), Value::Double(right)) => with_uint(*right, *left).map(Ordering::reverse),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "cel-go compares with the integer as a double")]
fn with_int(left: f64, right: i64) -> Option<Ordering> {
    if left < i64::MIN as f64 {
        return Some(Ordering::Less);
    }
    if left > i64::MAX as f64 {
        return Some(Ordering::Greater);
    }
    left.partial_cmp(&(right as f64))
}

#[expect(clippy::cast_precision_loss, reason = "cel-go compares with the integer as a double")]
fn with_uint(left: f64, right: u64) -> Option<Ordering> {
    if left < 0.0 {
        return Some(Ordering::Less);
    }
    if left > u64::MAX as f64 {
        return Some(Ordering::Greater);
    }
    left.partial_cmp(&(right as f64))
}

fn lists<'d>(left: &List<'d>, right: &List<'d>) -> Result<bool, EvalError> {
    if left.len() != right.len() {
        return Ok(false);
    }
    if let Some(answer) = left.decl().and_then(|decl| super::json::unordered_equal(left, decl, right)) {
        return answer;
    }
    for (left, right) in left.iter().zip(right.iter()) {
        if !equal(&left?, &right?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps<'d>(left: &Map<'d>, right: &Map<'d>) -> Result<bool, EvalError> {
    if left.len() != right.len() {
        return Ok(false);
    }
    if let (Map::Json(left, decl), Map::Json(right, _)) = (left, right) {
        // Undeclared fields are not visible to expressions; they are compared as JSON.
        let undeclared = left.iter().filter(|(name, _)| decl.identifier(name).is_none());
        for (name, value) in undeclared {
            if right.get(name).is_some_and(|other| other != value) {
                return Ok(false);
            }
        }
    }
    for key in left.keys() {
        let equals = match (left.find(&key)?, right.find(&key)?) {
            (Some(left), Some(right)) => equal(&left, &right)?,
            (None, None) => true,
            _ => false,
        };
        if !equals {
            return Ok(false);
        }
    }
    Ok(true)
}

type Fields<'d> = [(std::sync::Arc<str>, Value<'d>)];

fn objects<'d>(left: &Fields<'d>, right: &Fields<'d>) -> Result<bool, EvalError> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (name, value) in left {
        match right.iter().find(|(other, _)| other == name) {
            Some((_, other)) if equal(value, other)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}
