//! Regex library. Constant patterns are compiled once.

use regex::{Regex, RegexBuilder};

use crate::EvalError;
use crate::limits::MAX_REGEX_BYTES;
use crate::value::{Text, Value};

use super::go_regex::translate;
use super::{Function, mismatch};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "find",
        overloads: &[("string_find_string", "string.(string) -> string")],
        call: find_now,
    },
    Function {
        name: "findAll",
        overloads: &[
            ("string_find_all_string", "string.(string) -> list(string)"),
            ("string_find_all_string_int", "string.(string, int) -> list(string)"),
        ],
        call: find_all_now,
    },
];

type Flow<'d> = Result<Value<'d>, EvalError>;

/// Compiles a pattern.
///
/// # Errors
/// If it is malformed, or its automaton would be too large.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(&translate(pattern)?).size_limit(MAX_REGEX_BYTES).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "error parsing regexp: expression too large".to_owned(),
        other => format!("error parsing regexp: {}", last_line(&other.to_string())),
    })
}

/// Returns the last line of an error of the regex crate, which contains the reason.
fn last_line(message: &str) -> String {
    message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

pub(super) fn matches<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::String(text), Value::String(pattern)] => {
            let compiled = compile(pattern.as_str()).map_err(EvalError::failed)?;
            Ok(Value::Bool(compiled.is_match(text.as_str())))
        }
        _ => mismatch(),
    }
}

fn illegal(message: String) -> EvalError {
    EvalError::failed(format!("Illegal regex: {message}"))
}

fn find_now<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [text, Value::String(pattern)] => find(&compile(pattern.as_str()).map_err(illegal)?, text),
        _ => mismatch(),
    }
}

fn find_all_now<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [text, Value::String(pattern), limit @ ..] => {
            find_all(&compile(pattern.as_str()).map_err(illegal)?, text, limit.first())
        }
        _ => mismatch(),
    }
}

/// Returns the first match, or an empty string.
pub(crate) fn find<'d>(pattern: &Regex, text: &Value<'d>) -> Flow<'d> {
    Ok(match text {
        Value::String(Text::Borrowed(text)) => {
            Value::text(pattern.find(text).map_or("", |found| found.as_str()))
        }
        Value::String(Text::Shared(text)) => {
            Value::string(pattern.find(text).map_or("", |found| found.as_str()))
        }
        _ => return mismatch(),
    })
}

/// Returns all matches, up to a limit.
pub(crate) fn find_all<'d>(pattern: &Regex, text: &Value<'d>, limit: Option<&Value<'d>>) -> Flow<'d> {
    let limit = match limit {
        None => usize::MAX,
        Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
        Some(_) => return mismatch(),
    };
    let Value::String(text) = text else { return mismatch() };
    let found = pattern.find_iter(text.as_str()).take(limit);
    Ok(Value::list(found.map(|found| Value::string(found.as_str())).collect()))
}
