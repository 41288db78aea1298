//! Optional types library.

use std::sync::Arc;

use crate::EvalError;
use crate::value::Value;

use super::{Function, mismatch};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "optional.of", overloads: &[("optional_of", "(V) -> optional(V)")], call: of },
    Function {
        name: "optional.ofNonZeroValue",
        overloads: &[("optional_ofNonZeroValue", "(V) -> optional(V)")],
        call: of_non_zero,
    },
    Function { name: "optional.none", overloads: &[("optional_none", "() -> optional(V)")], call: none },
    Function { name: "value", overloads: &[("optional_value", "optional(V).() -> V")], call: value },
    Function {
        name: "hasValue",
        overloads: &[("optional_hasValue", "optional(V).() -> bool")],
        call: has_value,
    },
    Function {
        name: "or",
        overloads: &[("optional_or_optional", "optional(V).(optional(V)) -> optional(V)")],
        call: or,
    },
    Function {
        name: "orValue",
        overloads: &[("optional_orValue_value", "optional(V).(V) -> V")],
        call: or_value,
    },
    Function { name: "first", overloads: &[("list_first", "list(V).() -> optional(V)")], call: first },
    Function { name: "last", overloads: &[("list_last", "list(V).() -> optional(V)")], call: last },
    Function {
        name: "optional.unwrap",
        overloads: &[("optional_unwrap", "(list(optional(V))) -> list(V)")],
        call: unwrap,
    },
    Function {
        name: "unwrapOpt",
        overloads: &[("optional_unwrapOpt", "list(optional(V)).() -> list(V)")],
        call: unwrap,
    },
];

type Flow<'d> = Result<Value<'d>, EvalError>;

fn of<'d>(args: &[Value<'d>]) -> Flow<'d> {
    args.first().cloned().map_or_else(mismatch, |value| Ok(Value::some(value)))
}

fn of_non_zero<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [value] if value.is_zero() => Ok(Value::Optional(None)),
        _ => of(args),
    }
}

fn none<'d>(_: &[Value<'d>]) -> Flow<'d> {
    Ok(Value::Optional(None))
}

fn value<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::Optional(Some(inner))] => Ok(Value::clone(inner)),
        [Value::Optional(None)] => Err(EvalError::failed("optional.none() dereference")),
        _ => mismatch(),
    }
}

fn has_value<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
        _ => mismatch(),
    }
}

/// Never called: the evaluator handles `or` and `orValue`, because the second operand is evaluated
/// lazily.
fn or<'d>(_: &[Value<'d>]) -> Flow<'d> {
    mismatch()
}

fn or_value<'d>(_: &[Value<'d>]) -> Flow<'d> {
    mismatch()
}

fn first<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::List(list)] => Ok(Value::Optional(list.0.get(0).transpose()?.map(Arc::new))),
        _ => mismatch(),
    }
}

fn last<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::List(list)] => {
            let last = list.0.len().checked_sub(1).and_then(|last| list.0.get(last));
            Ok(Value::Optional(last.transpose()?.map(Arc::new)))
        }
        _ => mismatch(),
    }
}

fn unwrap<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [Value::List(list)] = args else { return mismatch() };
    let mut present = Vec::new();
    for element in list.0.iter() {
        match element? {
            Value::Optional(Some(inner)) => present.push(Value::clone(&inner)),
            Value::Optional(None) => {}
            other => return Err(EvalError::failed(format!("value {other} is not optional"))),
        }
    }
    Ok(Value::list(present))
}
