//! Formatting of values in patch errors.
//!
//! kube-apiserver formats values in its errors as Go does, and people search for those texts. The
//! format is the same here, but long values are truncated, since a hostile patch could contain very
//! long ones.

use std::fmt::Write as _;

use serde_json::Value;

/// Maximum length of a value in a message, in bytes.
const MAX_QUOTED_BYTES: usize = 2048;

/// Formats a value as Go's `%v` does, truncated with `...` if it is long.
pub fn as_go_prints(value: &Value) -> String {
    quote(value)
}

/// Alias of [`as_go_prints`] for patch errors.
pub(super) fn quote(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

/// Formats a value as Go's `%s` does, which marks everything but strings as a wrong type.
pub(super) fn as_string_verb(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(as_string_verb).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name}:{}", as_string_verb(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        Value::Bool(_) | Value::Number(_) => format!("%!s({}={})", type_name(value), quote(value)),
    }
}

/// Like [`quote`], for the items of a list.
pub(super) fn quote_list<'a>(items: impl IntoIterator<Item = &'a Value>) -> String {
    let mut text = String::new();
    write_list(&mut text, items.into_iter());
    text
}

/// Returns the Go type of a decoded value.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Returns the name of a value's type in messages of Go's JSON decoder.
pub(super) fn json_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns true if Go decodes both values to the same type.
pub(super) fn same_type(left: &Value, right: &Value) -> bool {
    type_name(left) == type_name(right)
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("<nil>"),
        Value::String(string) => push_truncated(text, string),
        Value::Array(items) => write_list(text, items.iter()),
        Value::Object(fields) => write_map(text, fields),
        Value::Number(number) if number.is_f64() => {
            let _ = write!(text, "{}", number.as_f64().unwrap_or_default());
        }
        Value::Bool(_) | Value::Number(_) => {
            let _ = write!(text, "{value}");
        }
    }
}

fn write_list<'a>(text: &mut String, items: impl Iterator<Item = &'a Value>) {
    text.push('[');
    for (at, item) in items.enumerate() {
        if is_full(text) {
            break;
        }
        if at > 0 {
            text.push(' ');
        }
        write_value(text, item);
    }
    text.push(']');
}

fn write_map(text: &mut String, fields: &serde_json::Map<String, Value>) {
    text.push_str("map[");
    for (at, (name, value)) in fields.iter().enumerate() {
        if is_full(text) {
            break;
        }
        if at > 0 {
            text.push(' ');
        }
        push_truncated(text, name);
        text.push(':');
        write_value(text, value);
    }
    text.push(']');
}

/// Returns true if the limit is reached; appends `...` the first time.
fn is_full(text: &mut String) -> bool {
    let full = text.len() >= MAX_QUOTED_BYTES;
    if full && !text.trim_end_matches(']').ends_with("...") {
        text.push_str("...");
    }
    full
}

fn push_truncated(text: &mut String, part: &str) {
    let room = MAX_QUOTED_BYTES.saturating_sub(text.len());
    if part.len() <= room {
        text.push_str(part);
        return;
    }
    text.push_str(&part[..part.floor_char_boundary(room)]);
    text.push_str("...");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_formatted_as_in_go() {
        for (value, text) in [
            (json!({"b": [1, 2.5, true, null], "a": "x y"}), "map[a:x y b:[1 2.5 true <nil>]]"),
            (json!({}), "map[]"),
            (json!([]), "[]"),
            (json!(1.0), "1"),
        ] {
            assert_eq!(quote(&value), text);
        }
    }

    #[test]
    fn string_verb_formats_values_as_in_go() {
        for (value, text) in [
            (json!("x"), "x"),
            (json!(1), "%!s(int64=1)"),
            (json!(1.5), "%!s(float64=1.5)"),
            (json!(true), "%!s(bool=true)"),
            (json!(null), "%!s(<nil>)"),
            (json!(["a", 1]), "[a %!s(int64=1)]"),
            (json!({"a": false}), "map[a:%!s(bool=false)]"),
        ] {
            assert_eq!(as_string_verb(&value), text);
        }
    }

    #[test]
    fn long_values_are_truncated() {
        let long = "ä".repeat(MAX_QUOTED_BYTES);
        for value in
            [json!(long), json!({"a": long}), json!(vec![long.clone(); 1000]), json!(vec![7; 100_000])]
        {
            let text = quote(&value);
            assert!(text.contains("..."), "{text}");
            assert!(text.len() < MAX_QUOTED_BYTES + 64, "{}", text.len());
        }
    }
}
