//! Strings extension library.

use crate::EvalError;
use crate::limits::MAX_STRING_BYTES;
use crate::value::{Text, Value};

use super::{Function, mismatch};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "charAt",
        overloads: &[("string_char_at_int", "string.(int) -> string")],
        call: char_at,
    },
    Function {
        name: "indexOf",
        overloads: &[
            ("string_index_of_string", "string.(string) -> int"),
            ("string_index_of_string_int", "string.(string, int) -> int"),
        ],
        call: index_of,
    },
    Function {
        name: "lastIndexOf",
        overloads: &[
            ("string_last_index_of_string", "string.(string) -> int"),
            ("string_last_index_of_string_int", "string.(string, int) -> int"),
        ],
        call: last_index_of,
    },
    Function {
        name: "lowerAscii",
        overloads: &[("string_lower_ascii", "string.() -> string")],
        call: lower_ascii,
    },
    Function {
        name: "upperAscii",
        overloads: &[("string_upper_ascii", "string.() -> string")],
        call: upper_ascii,
    },
    Function {
        name: "replace",
        overloads: &[
            ("string_replace_string_string", "string.(string, string) -> string"),
            ("string_replace_string_string_int", "string.(string, string, int) -> string"),
        ],
        call: replace,
    },
    Function {
        name: "split",
        overloads: &[
            ("string_split_string", "string.(string) -> list(string)"),
            ("string_split_string_int", "string.(string, int) -> list(string)"),
        ],
        call: split,
    },
    Function {
        name: "substring",
        overloads: &[
            ("string_substring_int", "string.(int) -> string"),
            ("string_substring_int_int", "string.(int, int) -> string"),
        ],
        call: substring,
    },
    Function { name: "trim", overloads: &[("string_trim", "string.() -> string")], call: trim },
    Function {
        name: "join",
        overloads: &[
            ("list_join", "list(string).() -> string"),
            ("list_join_string", "list(string).(string) -> string"),
        ],
        call: join,
    },
    Function { name: "strings.quote", overloads: &[("strings_quote", "(string) -> string")], call: quote },
];

pub(super) const JSON_PATCH: &[Function] = &[Function {
    name: "jsonpatch.escapeKey",
    overloads: &[("string_jsonpatch_escapeKey_string", "(string) -> string")],
    call: escape_key,
}];

type Flow<'d> = Result<Value<'d>, EvalError>;

fn out_of_range<'d>(index: i64) -> Flow<'d> {
    Err(EvalError::failed(format!("index out of range: {index}")))
}

/// Returns the byte offset of a character; the end of the text is a valid position.
fn byte_of(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

fn char_at<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [Value::String(text), Value::Int(index)] = args else { return mismatch() };
    let Some(at) = byte_of(text.as_str(), *index) else { return out_of_range(*index) };
    let found = text.as_str()[at..].chars().next();
    Ok(Value::string(found.map(String::from).unwrap_or_default()))
}

fn length(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn index_of<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let (text, part, from) = match args {
        [Value::String(text), Value::String(part)] => (text.as_str(), part.as_str(), 0),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text.as_str(), part.as_str(), *from),
        _ => return mismatch(),
    };
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    if from < 0 {
        return out_of_range(from);
    }
    let found = byte_of(text, from).and_then(|start| Some(start + text[start..].find(part)?));
    Ok(Value::Int(found.map_or(-1, |at| length(&text[..at]))))
}

fn last_index_of<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let (text, part, from) = match args {
        [Value::String(text), Value::String(part)] => (text.as_str(), part.as_str(), None),
        [Value::String(text), Value::String(part), Value::Int(from)] => {
            (text.as_str(), part.as_str(), Some(*from))
        }
        _ => return mismatch(),
    };
    let count = length(text);
    if part.is_empty() {
        return Ok(Value::Int(from.unwrap_or(count)));
    }
    if from.is_none() && text.len() < part.len() {
        return Ok(Value::Int(-1));
    }
    let from = from.unwrap_or(count - 1);
    if from < 0 {
        return out_of_range(from);
    }
    if from >= count {
        return Ok(Value::Int(-1));
    }
    // The match must start at `from` or before.
    let end = byte_of(text, from).map_or(text.len(), |at| (at + part.len()).min(text.len()));
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    Ok(Value::Int(text[..end].rfind(part).map_or(-1, |at| length(&text[..at]))))
}

fn lower_ascii<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::String(text)] => Ok(Value::string(text.as_str().to_ascii_lowercase())),
        _ => mismatch(),
    }
}

fn upper_ascii<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::String(text)] => Ok(Value::string(text.as_str().to_ascii_uppercase())),
        _ => mismatch(),
    }
}

fn replace<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let (text, old, new, limit) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, usize::MAX),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(limit)] => {
            (text, old, new, usize::try_from(*limit).unwrap_or(usize::MAX))
        }
        _ => return mismatch(),
    };
    let (text, old, new) = (text.as_str(), old.as_str(), new.as_str());
    let max_replacements = if old.is_empty() { text.chars().count() + 1 } else { text.len() / old.len() };
    let max_length = max_replacements.min(limit).saturating_mul(new.len()).saturating_add(text.len());
    if max_length > MAX_STRING_BYTES && new.len() > old.len() {
        return Err(EvalError::CostLimitExceeded);
    }
    Ok(Value::string(text.replacen(old, new, limit)))
}

fn split<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return mismatch(),
    };
    let (text, separator) = (text.as_str(), separator.as_str());
    let parts: Vec<Value<'d>> = match (limit, separator.is_empty()) {
        (0, _) => Vec::new(),
        (_, true) => characters(text, limit),
        (..0, _) => text.split(separator).map(Value::string).collect(),
        _ => {
            text.splitn(usize::try_from(limit).unwrap_or(usize::MAX), separator).map(Value::string).collect()
        }
    };
    Ok(Value::list(parts))
}

/// Splits into characters; with a limit, the last part is the rest.
fn characters<'d>(text: &str, limit: i64) -> Vec<Value<'d>> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    for (at, character) in text.char_indices() {
        if parts.len() + 1 == limit {
            parts.push(Value::string(&text[at..]));
            break;
        }
        parts.push(Value::string(String::from(character)));
    }
    parts
}

fn substring<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text.as_str(), *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text.as_str(), *start, Some(*end)),
        _ => return mismatch(),
    };
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(EvalError::failed(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let Some(from) = byte_of(text, start) else { return out_of_range(start) };
    let to = match end {
        None => text.len(),
        Some(end) => match byte_of(text, end) {
            Some(to) => to,
            None => return out_of_range(end),
        },
    };
    Ok(Value::string(&text[from..to]))
}

/// Trims white space as Go defines it, which does not include the ASCII information separators.
fn trim<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::String(text)] => Ok(match text {
            Text::Borrowed(text) => Value::text(text.trim()),
            Text::Shared(text) => Value::string(text.trim()),
        }),
        _ => mismatch(),
    }
}

fn join<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, separator.as_str()),
        _ => return mismatch(),
    };
    let mut joined = String::new();
    for (index, element) in list.0.iter().enumerate() {
        let element = element?;
        let Value::String(text) = &element else {
            return Err(EvalError::failed(format!("join: invalid input: {element}")));
        };
        joined.push_str(if index == 0 { "" } else { separator });
        joined.push_str(text.as_str());
        if joined.len() > MAX_STRING_BYTES {
            return Err(EvalError::CostLimitExceeded);
        }
    }
    Ok(Value::string(joined))
}

fn quote<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [Value::String(text)] = args else { return mismatch() };
    let mut quoted = String::from("\"");
    for character in text.as_str().chars() {
        let escape = match character {
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\u{b}' => 'v',
            '\\' | '"' => character,
            other => {
                quoted.push(other);
                continue;
            }
        };
        quoted.push('\\');
        quoted.push(escape);
    }
    quoted.push('"');
    Ok(Value::string(quoted))
}

fn escape_key<'d>(args: &[Value<'d>]) -> Flow<'d> {
    match args {
        [Value::String(text)] => Ok(Value::string(text.as_str().replace('~', "~0").replace('/', "~1"))),
        _ => mismatch(),
    }
}
