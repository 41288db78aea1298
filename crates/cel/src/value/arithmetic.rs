//! Arithmetic. Overflow is an error.

use crate::EvalError;
use crate::limits::MAX_STRING_BYTES;
use crate::names::{ADD, DIVIDE, MODULO, MULTIPLY, SUBTRACT};

use super::{Duration, ListValue, Text, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

type Flow<'d> = Result<Value<'d>, EvalError>;

const INT_OVERFLOW: &str = "integer overflow";
const UINT_OVERFLOW: &str = "unsigned integer overflow";
const DURATION_OVERFLOW: &str = "duration overflow";

impl Arithmetic {
    pub(crate) fn of(function: &str) -> Option<Self> {
        Some(match function {
            ADD => Self::Add,
            SUBTRACT => Self::Subtract,
            MULTIPLY => Self::Multiply,
            DIVIDE => Self::Divide,
            MODULO => Self::Modulo,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Add => ADD,
            Self::Subtract => SUBTRACT,
            Self::Multiply => MULTIPLY,
            Self::Divide => DIVIDE,
            Self::Modulo => MODULO,
        }
    }

    pub(crate) fn apply<'d>(self, left: &Value<'d>, right: &Value<'d>) -> Flow<'d> {
        match (left, right) {
            (Value::Int(left), Value::Int(right)) => self.ints(*left, *right),
            (Value::Uint(left), Value::Uint(right)) => self.uints(*left, *right),
            (Value::Double(left), Value::Double(right)) if self != Self::Modulo => {
                Ok(Value::Double(self.doubles(*left, *right)))
            }
            _ => match self {
                Self::Add => add(left, right),
                Self::Subtract => subtract(left, right),
                _ => Err(self.no_overload(left)),
            },
        }
    }

    fn ints<'d>(self, left: i64, right: i64) -> Flow<'d> {
        let result = match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide if right == 0 => return Err(EvalError::failed("division by zero")),
            Self::Divide => left.checked_div(right),
            Self::Modulo if right == 0 => return Err(EvalError::failed("modulus by zero")),
            Self::Modulo => left.checked_rem(right),
        };
        result.map(Value::Int).ok_or(EvalError::Failed(INT_OVERFLOW.into()))
    }

    fn uints<'d>(self, left: u64, right: u64) -> Flow<'d> {
        let result = match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide if right == 0 => return Err(EvalError::failed("division by zero")),
            Self::Divide => left.checked_div(right),
            Self::Modulo if right == 0 => return Err(EvalError::failed("modulus by zero")),
            Self::Modulo => left.checked_rem(right),
        };
        result.map(Value::Uint).ok_or(EvalError::Failed(UINT_OVERFLOW.into()))
    }

    fn doubles(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
            Self::Modulo => left % right,
        }
    }

    /// Returns the error for unsupported operands. cel-go's message names the function only if the
    /// left operand does not support the operation at all.
    fn no_overload(self, left: &Value<'_>) -> EvalError {
        let is_supported = match left {
            Value::Int(_) | Value::Uint(_) => true,
            Value::Double(_) => self != Self::Modulo,
            Value::Duration(_) | Value::Timestamp(_) => matches!(self, Self::Add | Self::Subtract),
            Value::String(_) | Value::Bytes(_) | Value::List(_) => self == Self::Add,
            _ => false,
        };
        if is_supported {
            EvalError::no_such_overload()
        } else {
            EvalError::unsupported_by(left, self.name())
        }
    }
}

fn add<'d>(left: &Value<'d>, right: &Value<'d>) -> Flow<'d> {
    Ok(match (left, right) {
        (Value::String(left), Value::String(right)) => Value::string(concat(left, right)?),
        (Value::Bytes(left), Value::Bytes(right)) => {
            if left.len() + right.len() > MAX_STRING_BYTES {
                return Err(EvalError::CostLimitExceeded);
            }
            Value::Bytes(left.iter().chain(right.iter()).copied().collect())
        }
        (Value::List(left), Value::List(right)) => Value::List(ListValue(left.0.join(&right.0)?)),
        (Value::Duration(left), Value::Duration(right)) => span(left.0.checked_add(right.0))?,
        (Value::Timestamp(point), Value::Duration(span))
        | (Value::Duration(span), Value::Timestamp(point)) => Value::Timestamp(point.add(*span)?),
        _ => return Err(Arithmetic::Add.no_overload(left)),
    })
}

fn concat(left: &Text<'_>, right: &Text<'_>) -> Result<String, EvalError> {
    let (left, right) = (left.as_str(), right.as_str());
    if left.len() + right.len() > MAX_STRING_BYTES {
        return Err(EvalError::CostLimitExceeded);
    }
    let mut joined = String::with_capacity(left.len() + right.len());
    joined.push_str(left);
    joined.push_str(right);
    Ok(joined)
}

fn subtract<'d>(left: &Value<'d>, right: &Value<'d>) -> Flow<'d> {
    Ok(match (left, right) {
        (Value::Duration(left), Value::Duration(right)) => span(left.0.checked_sub(right.0))?,
        (Value::Timestamp(point), Value::Duration(span)) => {
            let back = span.0.checked_neg().ok_or(EvalError::Failed(DURATION_OVERFLOW.into()))?;
            Value::Timestamp(point.add(Duration(back))?)
        }
        (Value::Timestamp(left), Value::Timestamp(right)) => Value::Duration(left.since(*right)?),
        _ => return Err(Arithmetic::Subtract.no_overload(left)),
    })
}

fn span<'d>(nanos: Option<i64>) -> Flow<'d> {
    nanos.map(|nanos| Value::Duration(Duration(nanos))).ok_or(EvalError::Failed(DURATION_OVERFLOW.into()))
}

/// Negates a number or duration.
pub(crate) fn negate<'d>(value: &Value<'d>) -> Flow<'d> {
    match value {
        Value::Int(value) => {
            value.checked_neg().map(Value::Int).ok_or(EvalError::Failed(INT_OVERFLOW.into()))
        }
        Value::Double(value) => Ok(Value::Double(-value)),
        Value::Duration(value) => span(value.0.checked_neg()),
        Value::Bool(_) => Err(EvalError::no_such_overload()),
        other => Err(EvalError::unsupported_by(other, crate::names::NEGATE)),
    }
}
