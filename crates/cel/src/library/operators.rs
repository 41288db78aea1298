//! Signatures of operators. The evaluator implements most of them directly.

use crate::value::{MapValue, Value};

use super::{Function, mismatch};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "_?_:_", overloads: &[("conditional", "(bool, A, A) -> A")], call: builtin },
    Function { name: "_&&_", overloads: &[("logical_and", "(bool, bool) -> bool")], call: builtin },
    Function { name: "_||_", overloads: &[("logical_or", "(bool, bool) -> bool")], call: builtin },
    Function { name: "!_", overloads: &[("logical_not", "(bool) -> bool")], call: builtin },
    Function {
        name: "@not_strictly_false",
        overloads: &[("not_strictly_false", "(bool) -> bool")],
        call: builtin,
    },
    Function { name: "_==_", overloads: &[("equals", "(A, A) -> bool")], call: builtin },
    Function { name: "_!=_", overloads: &[("not_equals", "(A, A) -> bool")], call: builtin },
    Function {
        name: "_+_",
        overloads: &[
            ("add_bytes", "(bytes, bytes) -> bytes"),
            ("add_double", "(double, double) -> double"),
            ("add_duration_duration", "(duration, duration) -> duration"),
            ("add_duration_timestamp", "(duration, timestamp) -> timestamp"),
            ("add_timestamp_duration", "(timestamp, duration) -> timestamp"),
            ("add_int64", "(int, int) -> int"),
            ("add_list", "(list(A), list(A)) -> list(A)"),
            ("add_string", "(string, string) -> string"),
            ("add_uint64", "(uint, uint) -> uint"),
        ],
        call: builtin,
    },
    Function {
        name: "_-_",
        overloads: &[
            ("subtract_double", "(double, double) -> double"),
            ("subtract_duration_duration", "(duration, duration) -> duration"),
            ("subtract_int64", "(int, int) -> int"),
            ("subtract_timestamp_duration", "(timestamp, duration) -> timestamp"),
            ("subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration"),
            ("subtract_uint64", "(uint, uint) -> uint"),
        ],
        call: builtin,
    },
    Function {
        name: "_*_",
        overloads: &[
            ("multiply_double", "(double, double) -> double"),
            ("multiply_int64", "(int, int) -> int"),
            ("multiply_uint64", "(uint, uint) -> uint"),
        ],
        call: builtin,
    },
    Function {
        name: "_/_",
        overloads: &[
            ("divide_double", "(double, double) -> double"),
            ("divide_int64", "(int, int) -> int"),
            ("divide_uint64", "(uint, uint) -> uint"),
        ],
        call: builtin,
    },
    Function {
        name: "_%_",
        overloads: &[("modulo_int64", "(int, int) -> int"), ("modulo_uint64", "(uint, uint) -> uint")],
        call: builtin,
    },
    Function {
        name: "-_",
        overloads: &[("negate_double", "(double) -> double"), ("negate_int64", "(int) -> int")],
        call: builtin,
    },
    Function {
        name: "_<_",
        overloads: &[
            ("less_bool", "(bool, bool) -> bool"),
            ("less_int64", "(int, int) -> bool"),
            ("less_int64_double", "(int, double) -> bool"),
            ("less_int64_uint64", "(int, uint) -> bool"),
            ("less_uint64", "(uint, uint) -> bool"),
            ("less_uint64_double", "(uint, double) -> bool"),
            ("less_uint64_int64", "(uint, int) -> bool"),
            ("less_double", "(double, double) -> bool"),
            ("less_double_int64", "(double, int) -> bool"),
            ("less_double_uint64", "(double, uint) -> bool"),
            ("less_string", "(string, string) -> bool"),
            ("less_bytes", "(bytes, bytes) -> bool"),
            ("less_timestamp", "(timestamp, timestamp) -> bool"),
            ("less_duration", "(duration, duration) -> bool"),
        ],
        call: builtin,
    },
    Function {
        name: "_<=_",
        overloads: &[
            ("less_equals_bool", "(bool, bool) -> bool"),
            ("less_equals_int64", "(int, int) -> bool"),
            ("less_equals_int64_double", "(int, double) -> bool"),
            ("less_equals_int64_uint64", "(int, uint) -> bool"),
            ("less_equals_uint64", "(uint, uint) -> bool"),
            ("less_equals_uint64_double", "(uint, double) -> bool"),
            ("less_equals_uint64_int64", "(uint, int) -> bool"),
            ("less_equals_double", "(double, double) -> bool"),
            ("less_equals_double_int64", "(double, int) -> bool"),
            ("less_equals_double_uint64", "(double, uint) -> bool"),
            ("less_equals_string", "(string, string) -> bool"),
            ("less_equals_bytes", "(bytes, bytes) -> bool"),
            ("less_equals_timestamp", "(timestamp, timestamp) -> bool"),
            ("less_equals_duration", "(duration, duration) -> bool"),
        ],
        call: builtin,
    },
    Function {
        name: "_>_",
        overloads: &[
            ("greater_bool", "(bool, bool) -> bool"),
            ("greater_int64", "(int, int) -> bool"),
            ("greater_int64_double", "(int, double) -> bool"),
            ("greater_int64_uint64", "(int, uint) -> bool"),
            ("greater_uint64", "(uint, uint) -> bool"),
            ("greater_uint64_double", "(uint, double) -> bool"),
            ("greater_uint64_int64", "(uint, int) -> bool"),
            ("greater_double", "(double, double) -> bool"),
            ("greater_double_int64", "(double, int) -> bool"),
            ("greater_double_uint64", "(double, uint) -> bool"),
            ("greater_string", "(string, string) -> bool"),
            ("greater_bytes", "(bytes, bytes) -> bool"),
            ("greater_timestamp", "(timestamp, timestamp) -> bool"),
            ("greater_duration", "(duration, duration) -> bool"),
        ],
        call: builtin,
    },
    Function {
        name: "_>=_",
        overloads: &[
            ("greater_equals_bool", "(bool, bool) -> bool"),
            ("greater_equals_int64", "(int, int) -> bool"),
            ("greater_equals_int64_double", "(int, double) -> bool"),
            ("greater_equals_int64_uint64", "(int, uint) -> bool"),
            ("greater_equals_uint64", "(uint, uint) -> bool"),
            ("greater_equals_uint64_double", "(uint, double) -> bool"),
            ("greater_equals_uint64_int64", "(uint, int) -> bool"),
            ("greater_equals_double", "(double, double) -> bool"),
            ("greater_equals_double_int64", "(double, int) -> bool"),
            ("greater_equals_double_uint64", "(double, uint) -> bool"),
            ("greater_equals_string", "(string, string) -> bool"),
            ("greater_equals_bytes", "(bytes, bytes) -> bool"),
            ("greater_equals_timestamp", "(timestamp, timestamp) -> bool"),
            ("greater_equals_duration", "(duration, duration) -> bool"),
        ],
        call: builtin,
    },
    Function {
        name: "_[_]",
        overloads: &[
            ("index_list", "(list(A), int) -> A"),
            ("index_map", "(map(A, B), A) -> B"),
            ("optional_list_index_int", "(optional(list(V)), int) -> optional(V)"),
            ("optional_map_index_value", "(optional(map(K, V)), K) -> optional(V)"),
        ],
        call: builtin,
    },
    Function {
        name: "_[?_]",
        overloads: &[
            ("list_optindex_optional_int", "(list(V), int) -> optional(V)"),
            ("optional_list_optindex_optional_int", "(optional(list(V)), int) -> optional(V)"),
            ("map_optindex_optional_value", "(map(K, V), K) -> optional(V)"),
            ("optional_map_optindex_optional_value", "(optional(map(K, V)), K) -> optional(V)"),
        ],
        call: builtin,
    },
    Function {
        name: "_?._",
        overloads: &[("select_optional_field", "(dyn, string) -> optional(V)")],
        call: builtin,
    },
    Function {
        name: "@in",
        overloads: &[("in_list", "(A, list(A)) -> bool"), ("in_map", "(A, map(A, B)) -> bool")],
        call: builtin,
    },
    Function {
        name: "cel.@mapInsert",
        overloads: &[
            ("@mapInsert_map_key_value", "(map(K, V), K, V) -> map(K, V)"),
            ("@mapInsert_map_map", "(map(K, V), map(K, V)) -> map(K, V)"),
        ],
        call: insert,
    },
];

/// Never called: the evaluator handles these operators without a function call.
fn builtin<'d>(_: &[Value<'d>]) -> Result<Value<'d>, crate::EvalError> {
    mismatch()
}

fn insert<'d>(args: &[Value<'d>]) -> Result<Value<'d>, crate::EvalError> {
    match args {
        [Value::Map(map), key, value] => {
            Ok(Value::Map(MapValue(map.0.clone().insert(key.clone(), value.clone())?)))
        }
        [Value::Map(map), Value::Map(more)] => {
            let mut map = map.0.clone();
            for entry in more.0.entries() {
                let (key, value) = entry?;
                map = map.insert(key, value)?;
            }
            Ok(Value::Map(MapValue(map)))
        }
        _ => mismatch(),
    }
}
