//! List libraries: aggregation, ordering, slicing.

use std::cmp::Ordering;

use crate::EvalError;
use crate::limits::MAX_LIST_ELEMENTS;
use crate::value::{Arithmetic, Duration, ListValue, Value, compare, equal};

use super::{Function, mismatch};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "isSorted",
        overloads: &[
            ("list_int_is_sorted_bool", "list(int).() -> bool"),
            ("list_uint_is_sorted_bool", "list(uint).() -> bool"),
            ("list_double_is_sorted_bool", "list(double).() -> bool"),
            ("list_bool_is_sorted_bool", "list(bool).() -> bool"),
            ("list_duration_is_sorted_bool", "list(duration).() -> bool"),
            ("list_timestamp_is_sorted_bool", "list(timestamp).() -> bool"),
            ("list_string_is_sorted_bool", "list(string).() -> bool"),
            ("list_bytes_is_sorted_bool", "list(bytes).() -> bool"),
        ],
        call: is_sorted,
    },
    Function { name: "sum", overloads: &[("list_int_sum_int", "list(int).() -> int")], call: sum_int },
    Function { name: "sum", overloads: &[("list_uint_sum_uint", "list(uint).() -> uint")], call: sum_uint },
    Function {
        name: "sum",
        overloads: &[("list_double_sum_double", "list(double).() -> double")],
        call: sum_double,
    },
    Function {
        name: "sum",
        overloads: &[("list_duration_sum_duration", "list(duration).() -> duration")],
        call: sum_duration,
    },
    Function {
        name: "max",
        overloads: &[
            ("list_int_max_int", "list(int).() -> int"),
            ("list_uint_max_uint", "list(uint).() -> uint"),
            ("list_double_max_double", "list(double).() -> double"),
            ("list_bool_max_bool", "list(bool).() -> bool"),
            ("list_duration_max_duration", "list(duration).() -> duration"),
            ("list_timestamp_max_timestamp", "list(timestamp).() -> timestamp"),
            ("list_string_max_string", "list(string).() -> string"),
            ("list_bytes_max_bytes", "list(bytes).() -> bytes"),
        ],
        call: max,
    },
    Function {
        name: "min",
        overloads: &[
            ("list_int_min_int", "list(int).() -> int"),
            ("list_uint_min_uint", "list(uint).() -> uint"),
            ("list_double_min_double", "list(double).() -> double"),
            ("list_bool_min_bool", "list(bool).() -> bool"),
            ("list_duration_min_duration", "list(duration).() -> duration"),
            ("list_timestamp_min_timestamp", "list(timestamp).() -> timestamp"),
            ("list_string_min_string", "list(string).() -> string"),
            ("list_bytes_min_bytes", "list(bytes).() -> bytes"),
        ],
        call: min,
    },
    Function { name: "indexOf", overloads: &[("list_a_index_of_int", "list(A).(A) -> int")], call: index_of },
    Function {
        name: "lastIndexOf",
        overloads: &[("list_a_last_index_of_int", "list(A).(A) -> int")],
        call: last_index_of,
    },
    Function { name: "slice", overloads: &[("list_slice", "list(T).(int, int) -> list(T)")], call: slice },
    Function {
        name: "flatten",
        overloads: &[
            ("list_flatten", "list(list(T)).() -> list(T)"),
            ("list_flatten_int", "list(dyn).(int) -> list(dyn)"),
        ],
        call: flatten,
    },
    Function {
        name: "sort",
        overloads: &[
            ("list_int_sort", "list(int).() -> list(int)"),
            ("list_uint_sort", "list(uint).() -> list(uint)"),
            ("list_double_sort", "list(double).() -> list(double)"),
            ("list_bool_sort", "list(bool).() -> list(bool)"),
            ("list_google.protobuf.Duration_sort", "list(duration).() -> list(duration)"),
            ("list_google.protobuf.Timestamp_sort", "list(timestamp).() -> list(timestamp)"),
            ("list_string_sort", "list(string).() -> list(string)"),
            ("list_bytes_sort", "list(bytes).() -> list(bytes)"),
        ],
        call: sort,
    },
    Function {
        name: "@sortByAssociatedKeys",
        overloads: &[
            ("list_int_sortByAssociatedKeys", "list(T).(list(int)) -> list(T)"),
            ("list_uint_sortByAssociatedKeys", "list(T).(list(uint)) -> list(T)"),
            ("list_double_sortByAssociatedKeys", "list(T).(list(double)) -> list(T)"),
            ("list_bool_sortByAssociatedKeys", "list(T).(list(bool)) -> list(T)"),
            ("list_google.protobuf.Duration_sortByAssociatedKeys", "list(T).(list(duration)) -> list(T)"),
            ("list_google.protobuf.Timestamp_sortByAssociatedKeys", "list(T).(list(timestamp)) -> list(T)"),
            ("list_string_sortByAssociatedKeys", "list(T).(list(string)) -> list(T)"),
            ("list_bytes_sortByAssociatedKeys", "list(T).(list(bytes)) -> list(T)"),
        ],
        call: sort_by_keys,
    },
    Function { name: "lists.range", overloads: &[("lists_range", "(int) -> list(int)")], call: range },
    Function { name: "reverse", overloads: &[("list_reverse", "list(T).() -> list(T)")], call: reverse },
    Function { name: "distinct", overloads: &[("list_distinct", "list(T).() -> list(T)")], call: distinct },
];

type Flow<'d> = Result<Value<'d>, EvalError>;

fn is_sorted<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [Value::List(list)] = args else { return mismatch() };
    let mut previous: Option<Value<'d>> = None;
    for element in list.0.iter() {
        let element = element?;
        if let Some(previous) = previous
            && compare(&previous, &element)? == Ordering::Greater
        {
            return Ok(Value::Bool(false));
        }
        previous = Some(element);
    }
    Ok(Value::Bool(true))
}

fn sum<'d>(args: &[Value<'d>], zero: Value<'d>) -> Flow<'d> {
    let [Value::List(list)] = args else { return mismatch() };
    let mut total = zero;
    for element in list.0.iter() {
        // cel-go discards the original error here.
        total = Arithmetic::Add.apply(&total, &element?)?;
    }
    Ok(total)
}

fn sum_int<'d>(args: &[Value<'d>]) -> Flow<'d> {
    sum(args, Value::Int(0))
}

fn sum_uint<'d>(args: &[Value<'d>]) -> Flow<'d> {
    sum(args, Value::Uint(0))
}

fn sum_double<'d>(args: &[Value<'d>]) -> Flow<'d> {
    sum(args, Value::Double(0.0))
}

fn sum_duration<'d>(args: &[Value<'d>]) -> Flow<'d> {
    sum(args, Value::Duration(Duration(0)))
}

fn extreme<'d>(args: &[Value<'d>], name: &str, replace: Ordering) -> Flow<'d> {
    let [Value::List(list)] = args else { return mismatch() };
    let mut best: Option<Value<'d>> = None;
    for element in list.0.iter() {
        let element = element?;
        match &best {
            Some(so_far) if compare(so_far, &element)? != replace => {}
            _ => best = Some(element),
        }
    }
    best.ok_or_else(|| EvalError::failed(format!("{name} called on empty list")))
}

fn max<'d>(args: &[Value<'d>]) -> Flow<'d> {
    extreme(args, "max", Ordering::Less)
}

fn min<'d>(args: &[Value<'d>]) -> Flow<'d> {
    extreme(args, "min", Ordering::Greater)
}

fn position<'d>(list: &ListValue<'d>, element_to_find: &Value<'d>, last: bool) -> Flow<'d> {
    let length = list.0.len();
    for step in 0..length {
        let index = if last { length - 1 - step } else { step };
        let element = list.0.get(index).transpose()?;
        if element.is_some_and(|element| equal(&element, element_to_find) == Ok(true)) {
            return Ok(Value::Int(i64::try_from(index).unwrap_or(i64::MAX)));
        }
    }
    Ok(Value::Int(-1))
}

fn index_of<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::List(list), element_to_find] => position(list, element_to_find, false),
        _ => mismatch(),
    }
}

fn last_index_of<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::List(list), element_to_find] => position(list, element_to_find, true),
        _ => mismatch(),
    }
}

fn slice<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else { return mismatch() };
    let error = |why: &str| Err(EvalError::failed(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return error("negative indexes not supported");
    };
    if from > to {
        return error("start index must be less than or equal to end index");
    }
    if list.0.len() < to {
        return error(&format!("list is length {}", list.0.len()));
    }
    let elements = (from..to).filter_map(|index| list.0.get(index));
    Ok(Value::list(elements.collect::<Result<_, _>>()?))
}

fn flatten<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return mismatch(),
    };
    if depth < 0 {
        return Err(EvalError::failed("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(list, depth, &mut flat)?;
    Ok(Value::list(flat))
}

/// Recursive; the depth of values is bounded.
fn flatten_into<'d>(list: &ListValue<'d>, depth: i64, into: &mut Vec<Value<'d>>) -> Result<(), EvalError> {
    for element in list.0.iter() {
        match element? {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, into)?,
            other => into.push(other),
        }
        if into.len() > MAX_LIST_ELEMENTS {
            return Err(EvalError::CostLimitExceeded);
        }
    }
    Ok(())
}

fn sort<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::List(list)] => sorted(list, list),
        [value] => Err(EvalError::unsupported_by(value, "sort")),
        _ => mismatch(),
    }
}

fn sort_by_keys<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::List(list), Value::List(keys)] => sorted(list, keys),
        [value, ..] => Err(EvalError::unsupported_by(value, crate::names::SORT_BY_KEYS)),
        _ => mismatch(),
    }
}

fn sorted<'d>(list: &ListValue<'d>, keys: &ListValue<'d>) -> Flow<'d> {
    let (length, count) = (list.0.len(), keys.0.len());
    if length != count {
        return Err(EvalError::failed(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {length} and {count} elements respectively"
        )));
    }
    let mut keyed = Vec::with_capacity(length);
    for (key, element) in keys.0.iter().zip(list.0.iter()) {
        keyed.push((key?, element?));
    }
    let Some((first, _)) = keyed.first() else { return Ok(Value::List(list.clone())) };
    if compare(first, first).is_err() && !matches!(first, Value::Double(_)) {
        return Err(EvalError::failed("list elements must be comparable"));
    }
    let kind = std::mem::discriminant(first);
    if keyed.iter().any(|(key, _)| std::mem::discriminant(key) != kind) {
        return Err(EvalError::failed("list elements must have the same type"));
    }
    keyed.sort_by(|(one, _), (other, _)| compare(one, other).unwrap_or(Ordering::Equal));
    Ok(Value::list(keyed.into_iter().map(|(_, element)| element).collect()))
}

fn range<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [Value::Int(end)] = args else { return mismatch() };
    if *end > i64::try_from(MAX_LIST_ELEMENTS).unwrap_or(i64::MAX) {
        return Err(EvalError::CostLimitExceeded);
    }
    Ok(Value::list((0..*end).map(Value::Int).collect()))
}

fn reverse<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [Value::List(list)] = args else { return mismatch() };
    let mut elements: Vec<Value<'d>> = list.0.iter().collect::<Result<_, _>>()?;
    elements.reverse();
    Ok(Value::list(elements))
}

/// Compares each element with all before it; the quadratic cost has been charged before the call.
fn distinct<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [Value::List(list)] = args else { return mismatch() };
    let mut unique: Vec<Value<'d>> = Vec::new();
    for element in list.0.iter() {
        let element = element?;
        if !unique.iter().any(|seen| equal(&element, seen) == Ok(true)) {
            unique.push(element);
        }
    }
    Ok(Value::list(unique))
}
