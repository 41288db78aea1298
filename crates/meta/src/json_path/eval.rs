//! Evaluation of JSONPath expressions.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use super::{Filter, JsonPath, LostJsonPath, Operator, Range, Step, To};

/// Maximum number of values that a recursive descent (`..`) may find: more than a large object has.
/// Each further descent finds the descendants of all values found before, which in a deep object are
/// many times as many.
const MAX_VALUES: usize = 1 << 20;

type Values<'a> = Vec<Cow<'a, Value>>;
type EvalResult<T> = Result<T, LostJsonPath>;

fn failure<T>(message: impl Into<String>) -> EvalResult<T> {
    Err(LostJsonPath(message.into()))
}

/// Evaluates a path for several values.
pub(super) fn find<'a>(path: &'a JsonPath, from: Values<'a>) -> EvalResult<Values<'a>> {
    path.steps.iter().try_fold(from, |found, step| evaluate_step(step, found))
}

fn evaluate_step<'a>(step: &'a Step, from: Values<'a>) -> EvalResult<Values<'a>> {
    let mut found = Vec::new();
    match step {
        Step::Literal(value) => found.extend(from.iter().map(|_| Cow::Borrowed(value))),
        Step::Union(paths) => {
            for path in paths {
                found.extend(find(path, from.clone())?);
            }
        }
        Step::Field(name) => found.extend(from.into_iter().filter_map(|value| field(value, name))),
        Step::All => from.into_iter().for_each(|value| found.extend(children(value))),
        Step::Deep => from.into_iter().try_for_each(|value| descend(value, &mut found))?,
        Step::Items(range) => {
            for value in from.into_iter().filter(|value| !value.is_null()) {
                found.extend(items(list(value)?, *range)?);
            }
        }
        Step::Filter(filter) => {
            for value in from {
                for item in list(value)? {
                    if passes(filter, &item)? {
                        found.push(item);
                    }
                }
            }
        }
    }
    Ok(found)
}

fn field<'a>(value: Cow<'a, Value>, name: &str) -> Option<Cow<'a, Value>> {
    match value {
        Cow::Borrowed(value) => value.as_object()?.get(name).map(Cow::Borrowed),
        Cow::Owned(value) => value.as_object()?.get(name).cloned().map(Cow::Owned),
    }
}

fn children(value: Cow<'_, Value>) -> Values<'_> {
    match value {
        Cow::Borrowed(Value::Object(fields)) => fields.values().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Object(fields)) => fields.into_iter().map(|(_, value)| Cow::Owned(value)).collect(),
        Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
        _ => Vec::new(),
    }
}

/// Appends the value and all its descendants, except scalars and empty values.
fn descend<'a>(value: Cow<'a, Value>, found: &mut Values<'a>) -> EvalResult<()> {
    let parts = children(value.clone());
    if parts.is_empty() {
        return Ok(());
    }
    if found.len() == MAX_VALUES {
        return failure(format!("the path matches more than {MAX_VALUES} values"));
    }
    found.push(value);
    parts.into_iter().try_for_each(|part| descend(part, found))
}

fn list(value: Cow<'_, Value>) -> EvalResult<Values<'_>> {
    if value.is_array() { Ok(children(value)) } else { failure("not an array or slice") }
}

fn items(items: Values<'_>, range: Range) -> EvalResult<Values<'_>> {
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let from = from_end(range.from.unwrap_or(0));
    let to = match range.to {
        To::End => length,
        To::Index(index) => from_end(index),
        To::Single => from.saturating_add(1),
    };
    if from == to {
        return Ok(Vec::new());
    }
    if from < 0 || from >= length || to < 0 || to > length || from > to {
        return failure(format!("array index out of bounds: index {from}, length {length}"));
    }
    let step = usize::try_from(range.step.unwrap_or(1)).ok().filter(|step| *step > 0);
    let Some(step) = step else { return failure("step must be > 0") };
    let (skipped, taken) = (usize::try_from(from).unwrap_or(0), usize::try_from(to - from).unwrap_or(0));
    Ok(items.into_iter().skip(skipped).take(taken).step_by(step).collect())
}

fn passes(filter: &Filter, item: &Value) -> EvalResult<bool> {
    let left = find(&filter.left, vec![Cow::Borrowed(item)]);
    let Some((operator, right)) = &filter.compare else {
        return Ok(left.is_ok_and(|found| !found.is_empty()));
    };
    let (left, right) = (left?, find(right, vec![Cow::Borrowed(item)])?);
    match (left.as_slice(), right.as_slice()) {
        ([], _) | (_, []) => Ok(false),
        ([left], [right]) => compare(*operator, left, right),
        _ => failure("can only compare one element at a time"),
    }
}

fn compare(operator: Operator, left: &Value, right: &Value) -> EvalResult<bool> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) if left == right => Ordering::Equal,
        // Booleans are only equal or unequal; they have no order.
        (Value::Bool(_), Value::Bool(_)) => match operator {
            Operator::Equal => return Ok(false),
            Operator::NotEqual => return Ok(true),
            _ => return failure("invalid type for comparison"),
        },
        (Value::Number(left), Value::Number(right)) if left.is_i64() == right.is_i64() => {
            match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => {
                    let (left, right) = (left.as_f64().unwrap_or(0.0), right.as_f64().unwrap_or(0.0));
                    left.total_cmp(&right)
                }
            }
        }
        _ => return failure("incompatible types for comparison"),
    };
    Ok(match operator {
        Operator::Less => order.is_lt(),
        Operator::LessEqual => order.is_le(),
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::GreaterEqual => order.is_ge(),
        Operator::Greater => order.is_gt(),
    })
}
