//! What goes wrong when an expression is evaluated.

use std::borrow::Cow;

use crate::value::Value;

/// Why an expression has no value. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// An operation failed, such as an index beyond the end. `&&`, `||` and the macros made of them take
    /// this as an unknown answer: another operand may still decide.
    #[error("{0}")]
    Failed(Cow<'static, str>),
    /// The budget of this call is used up.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimitExceeded,
    /// Whoever asked no longer waits for the answer.
    #[error("operation interrupted")]
    Interrupted,
}

impl EvalError {
    /// An operation that failed.
    pub fn failed(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Failed(message.into())
    }

    pub(crate) fn no_such_overload() -> Self {
        Self::Failed(Cow::Borrowed("no such overload"))
    }

    /// An operation that a value does not know. Upstream asks texts and times about any function by name, and
    /// they do not say which one it was.
    pub(crate) fn unknown_to(value: &Value<'_>, function: &str) -> Self {
        match value {
            Value::String(_) | Value::Timestamp(_) | Value::Duration(_) => Self::no_such_overload(),
            _ => Self::no_overload_of(function),
        }
    }

    pub(crate) fn no_overload_of(function: &str) -> Self {
        Self::failed(format!("no such overload: {function}"))
    }
}
