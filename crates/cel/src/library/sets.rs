//! Sets library: lists as sets.

use crate::EvalError;
use crate::value::{List, Value, equal};

use super::{Function, mismatch};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "sets.contains",
        overloads: &[("list_sets_contains_list", "(list(T), list(T)) -> bool")],
        call: contains,
    },
    Function {
        name: "sets.equivalent",
        overloads: &[("list_sets_equivalent_list", "(list(T), list(T)) -> bool")],
        call: equivalent,
    },
    Function {
        name: "sets.intersects",
        overloads: &[("list_sets_intersects_list", "(list(T), list(T)) -> bool")],
        call: intersects,
    },
];

type Flow<'d> = Result<Value<'d>, EvalError>;

/// Returns true if a list contains an element.
///
/// # Errors
/// If no element is equal, and at least one comparison failed.
pub(crate) fn has<'d>(list: &List<'d>, expected: &Value<'d>) -> Result<bool, EvalError> {
    let mut failure = None;
    for element in list.iter() {
        match element.and_then(|element| equal(&element, expected)) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(false), Err)
}

fn has_all<'d>(list: &List<'d>, expected: &List<'d>) -> Result<bool, EvalError> {
    for element in expected.iter() {
        if !has(list, &element?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::List(list), Value::List(expected)] => Ok(Value::Bool(has_all(&list.0, &expected.0)?)),
        _ => mismatch(),
    }
}

fn equivalent<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::List(one), Value::List(other)] => {
            Ok(Value::Bool(has_all(&one.0, &other.0)? && has_all(&other.0, &one.0)?))
        }
        _ => mismatch(),
    }
}

fn intersects<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [Value::List(one), Value::List(other)] = args else { return mismatch() };
    for element in one.0.iter() {
        if has(&other.0, &element?) == Ok(true) {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
