//! Standard library: sizes, type conversions, and string tests.

use crate::EvalError;
use crate::types::Type;
use crate::value::{Value, convert};

use super::{Function, mismatch, patterns};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "size",
        overloads: &[
            ("size_bytes", "(bytes) -> int"),
            ("bytes_size", "bytes.() -> int"),
            ("size_list", "(list(A)) -> int"),
            ("list_size", "list(A).() -> int"),
            ("size_map", "(map(A, B)) -> int"),
            ("map_size", "map(A, B).() -> int"),
            ("size_string", "(string) -> int"),
            ("string_size", "string.() -> int"),
        ],
        call: size,
    },
    Function { name: "type", overloads: &[("type", "(A) -> type(A)")], call: type_of },
    Function {
        name: "bool",
        overloads: &[("bool_to_bool", "(bool) -> bool"), ("string_to_bool", "(string) -> bool")],
        call: to_bool,
    },
    Function {
        name: "bytes",
        overloads: &[("bytes_to_bytes", "(bytes) -> bytes"), ("string_to_bytes", "(string) -> bytes")],
        call: to_bytes,
    },
    Function {
        name: "double",
        overloads: &[
            ("double_to_double", "(double) -> double"),
            ("int64_to_double", "(int) -> double"),
            ("string_to_double", "(string) -> double"),
            ("uint64_to_double", "(uint) -> double"),
        ],
        call: to_double,
    },
    Function {
        name: "duration",
        overloads: &[
            ("duration_to_duration", "(duration) -> duration"),
            ("int64_to_duration", "(int) -> duration"),
            ("string_to_duration", "(string) -> duration"),
        ],
        call: to_duration,
    },
    Function { name: "dyn", overloads: &[("to_dyn", "(A) -> dyn")], call: identity },
    Function {
        name: "int",
        overloads: &[
            ("int64_to_int64", "(int) -> int"),
            ("double_to_int64", "(double) -> int"),
            ("duration_to_int64", "(duration) -> int"),
            ("string_to_int64", "(string) -> int"),
            ("timestamp_to_int64", "(timestamp) -> int"),
            ("uint64_to_int64", "(uint) -> int"),
        ],
        call: to_int,
    },
    Function { name: "string", overloads: &[("string_to_string", "(string) -> string")], call: to_string },
    Function { name: "string", overloads: &[("bool_to_string", "(bool) -> string")], call: to_string },
    Function { name: "string", overloads: &[("bytes_to_string", "(bytes) -> string")], call: to_string },
    Function { name: "string", overloads: &[("double_to_string", "(double) -> string")], call: to_string },
    Function {
        name: "string",
        overloads: &[("duration_to_string", "(duration) -> string")],
        call: to_string,
    },
    Function { name: "string", overloads: &[("int64_to_string", "(int) -> string")], call: to_string },
    Function {
        name: "string",
        overloads: &[("timestamp_to_string", "(timestamp) -> string")],
        call: to_string,
    },
    Function { name: "string", overloads: &[("uint64_to_string", "(uint) -> string")], call: to_string },
    Function {
        name: "timestamp",
        overloads: &[
            ("timestamp_to_timestamp", "(timestamp) -> timestamp"),
            ("int64_to_timestamp", "(int) -> timestamp"),
            ("string_to_timestamp", "(string) -> timestamp"),
        ],
        call: to_timestamp,
    },
    Function {
        name: "uint",
        overloads: &[
            ("uint64_to_uint64", "(uint) -> uint"),
            ("double_to_uint64", "(double) -> uint"),
            ("int64_to_uint64", "(int) -> uint"),
            ("string_to_uint64", "(string) -> uint"),
        ],
        call: to_uint,
    },
    Function {
        name: "contains",
        overloads: &[("contains_string", "string.(string) -> bool")],
        call: contains,
    },
    Function {
        name: "endsWith",
        overloads: &[("ends_with_string", "string.(string) -> bool")],
        call: ends_with,
    },
    Function {
        name: "startsWith",
        overloads: &[("starts_with_string", "string.(string) -> bool")],
        call: starts_with,
    },
    Function {
        name: "matches",
        overloads: &[("matches", "(string, string) -> bool"), ("matches_string", "string.(string) -> bool")],
        call: patterns::matches,
    },
];

type Flow<'d> = Result<Value<'d>, EvalError>;

fn size<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
            Ok(Value::Int(i64::try_from(value.cost_size()).unwrap_or(i64::MAX)))
        }
        [value] => Err(EvalError::unsupported_by(value, "size")),
        _ => mismatch(),
    }
}

fn type_of<'d>(args: &[Value<'d>]) -> Flow<'d> {
    args.first().map_or_else(mismatch, |value| Ok(Value::Type(value.type_of())))
}

fn identity<'d>(args: &[Value<'d>]) -> Flow<'d> {
    args.first().cloned().map_or_else(mismatch, Ok)
}

fn convert_to<'d>(args: &[Value<'d>], target: &Type) -> Flow<'d> {
    args.first().and_then(|value| convert(value, target)).unwrap_or_else(mismatch)
}

fn to_bool<'d>(args: &[Value<'d>]) -> Flow<'d> {
    convert_to(args, &Type::Bool)
}

fn to_bytes<'d>(args: &[Value<'d>]) -> Flow<'d> {
    convert_to(args, &Type::Bytes)
}

fn to_double<'d>(args: &[Value<'d>]) -> Flow<'d> {
    convert_to(args, &Type::Double)
}

fn to_duration<'d>(args: &[Value<'d>]) -> Flow<'d> {
    convert_to(args, &Type::Duration)
}

fn to_int<'d>(args: &[Value<'d>]) -> Flow<'d> {
    convert_to(args, &Type::Int)
}

fn to_string<'d>(args: &[Value<'d>]) -> Flow<'d> {
    convert_to(args, &Type::String)
}

fn to_timestamp<'d>(args: &[Value<'d>]) -> Flow<'d> {
    convert_to(args, &Type::Timestamp)
}

fn to_uint<'d>(args: &[Value<'d>]) -> Flow<'d> {
    convert_to(args, &Type::Uint)
}

fn test_strings<'d>(args: &[Value<'d>], test: fn(&str, &str) -> bool) -> Flow<'d> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(test(text.as_str(), part.as_str()))),
        _ => mismatch(),
    }
}

fn contains<'d>(args: &[Value<'d>]) -> Flow<'d> {
    test_strings(args, |text, part| text.contains(part))
}

fn ends_with<'d>(args: &[Value<'d>]) -> Flow<'d> {
    test_strings(args, |text, part| text.ends_with(part))
}

fn starts_with<'d>(args: &[Value<'d>]) -> Flow<'d> {
    test_strings(args, |text, part| text.starts_with(part))
}
