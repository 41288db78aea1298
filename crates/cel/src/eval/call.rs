//! Evaluation of function calls.

use crate::EvalError;
use crate::library::{find, find_all, has};
use crate::plan::{Call, NodeId, Pattern, PatternKind};
use crate::types::Type;
use crate::value::Value;

use super::{CostRule, Flow, Machine, absorbed};

/// Maximum number of arguments of any function, so that they fit into an array without allocation.
const MAX_ARGS: usize = 4;

impl<'d> Machine<'_, 'd> {
    pub(super) fn call(&mut self, call: &'d Call) -> Flow<'d> {
        let args = self.arguments(&call.args, call.cost, call.stops_at_failure)?;
        let args = &args[..call.args.len()];
        if !call.cost.needs_result() {
            self.charge(call.cost.price(args))?;
        }
        let result = dispatch(call, args);
        if call.cost.needs_result() {
            let price = match &result {
                Ok(value) => call.cost.price(std::slice::from_ref(value)),
                Err(_) => call.cost.price(&[Value::Null]),
            };
            self.charge(price)?;
        }
        result
    }

    /// Evaluates the arguments of a call. For calls with two arguments, cel-go evaluates both even
    /// if the first fails, and charges for the call that is not made. For calls with variable
    /// arguments it stops at the first failure, and charges only if that was the last argument.
    fn arguments(
        &mut self,
        args: &'d [NodeId],
        cost: CostRule,
        stops_at_failure: bool,
    ) -> Result<[Value<'d>; MAX_ARGS], EvalError> {
        let mut values = [Value::Null, Value::Null, Value::Null, Value::Null];
        let mut failure = None;
        for (index, arg) in args.iter().take(MAX_ARGS).enumerate() {
            match absorbed(self.eval(*arg))? {
                Ok(found) => values[index] = found,
                Err(error) if stops_at_failure && index + 1 < args.len() => return Err(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let Some(failure) = failure else { return Ok(values) };
        let paid = if cost.needs_result() { &[Value::Null] } else { &values[..args.len()] };
        self.charge(cost.price(paid))?;
        Err(failure)
    }

    pub(super) fn pattern(&mut self, pattern: &'d Pattern) -> Flow<'d> {
        let args = self.arguments(&pattern.args, pattern.cost, true)?;
        let args = &args[..pattern.args.len()];
        self.charge(pattern.cost.price(args))?;
        match pattern.kind {
            PatternKind::Matches => match &args[0] {
                Value::String(text) => Ok(Value::Bool(pattern.regex.is_match(text.as_str()))),
                _ => Err(EvalError::no_such_overload()),
            },
            PatternKind::Find => find(&pattern.regex, &args[0]),
            PatternKind::FindAll => find_all(&pattern.regex, &args[0], args.get(2)),
        }
    }
}

fn dispatch<'d>(call: &Call, args: &[Value<'d>]) -> Flow<'d> {
    if let (Some(any), true) = (call.overloads.first(), call.skips_type_guard) {
        return (any.call)(args);
    }
    let fitting = call.overloads.iter().find(|overload| {
        overload.args.len() == args.len()
            && overload.args.iter().zip(args).all(|(expected, arg)| fits(expected, arg))
    });
    match fitting {
        Some(overload) => (overload.call)(args),
        None => {
            let types: Vec<String> = args.iter().map(|arg| arg.type_of().name().to_owned()).collect();
            Err(EvalError::failed(format!("no such overload: {}({})", call.function, types.join(", "))))
        }
    }
}

/// Returns true if a value has this type. For lists and maps only the first element is checked.
pub(crate) fn fits(expected: &Type, value: &Value<'_>) -> bool {
    match (expected, value) {
        (Type::Dyn | Type::Any | Type::Param(_), _)
        | (Type::Null, Value::Null)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Uint, Value::Uint(_))
        | (Type::Double, Value::Double(_))
        | (Type::String, Value::String(_))
        | (Type::Bytes, Value::Bytes(_))
        | (Type::Timestamp, Value::Timestamp(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::Type(_), Value::Type(_)) => true,
        (Type::List(expected), Value::List(_)) if matches!(**expected, Type::Param(_) | Type::Dyn) => true,
        (Type::List(expected), Value::List(list)) => match list.0.get(0) {
            Some(Ok(first)) => fits(expected, &first),
            _ => true,
        },
        (Type::Map(keys, values), Value::Map(map)) => match map.0.entries().next() {
            Some(Ok((key, value))) => fits(keys, &key) && fits(values, &value),
            _ => true,
        },
        (Type::Struct(name), Value::Object(object)) => *name == object.type_name,
        (Type::Struct(name) | Type::Opaque(name, _), Value::Extension(extension)) => {
            **name == *extension.0.type_name()
        }
        (expected @ Type::Opaque(..), Value::Optional(inner)) => match (expected.as_optional(), inner) {
            (Some(expected), Some(inner)) => fits(expected, inner),
            (found, _) => found.is_some(),
        },
        _ => false,
    }
}

/// Evaluates the operator `in`.
pub(super) fn contains<'d>(element: &Value<'d>, container: &Value<'d>) -> Flow<'d> {
    match container {
        Value::List(list) => has(&list.0, element).map(Value::Bool),
        Value::Map(map) => map.0.find(element).map(|found| Value::Bool(found.is_some())),
        _ => Err(EvalError::no_such_overload()),
    }
}
