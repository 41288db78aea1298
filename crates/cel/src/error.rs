//! Evaluation errors.

use std::borrow::Cow;

use crate::value::Value;

/// The reason why an evaluation failed. Messages are those of cel-go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// An operation failed, such as an index out of bounds. `&&`, `||` and the macros built on them
    /// treat this as unknown: another operand may still determine the result.
    #[error("{0}")]
    Failed(Cow<'static, str>),
    /// The call exceeded its cost limit.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimitExceeded,
    /// The evaluation was cancelled.
    #[error("operation interrupted")]
    Interrupted,
}

impl EvalError {
    /// Creates the error of a failed operation.
    pub fn failed(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Failed(message.into())
    }

    pub(crate) fn no_such_overload() -> Self {
        Self::Failed(Cow::Borrowed("no such overload"))
    }

    /// Creates the error of an operation that a value does not support. In cel-go strings and times
    /// accept any function name and return an error without it.
    pub(crate) fn unsupported_by(value: &Value<'_>, function: &str) -> Self {
        match value {
            Value::String(_) | Value::Timestamp(_) | Value::Duration(_) => Self::no_such_overload(),
            _ => Self::no_overload_of(function),
        }
    }

    pub(crate) fn no_overload_of(function: &str) -> Self {
        Self::failed(format!("no such overload: {function}"))
    }
}
