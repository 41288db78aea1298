//! Encodes a tree in block style, with keys in the order of the tree, which is ascending. Deeply nested values are
//! written in flow style.

use coracle_meta::go_json;
use serde_json::{Map, Value};

use super::resolve::{self, Resolved};

/// The largest indentation, in spaces. An object of 3 MiB can have 400 000 fields that lie thousands of levels deep,
/// and each line of block style begins with two spaces for each level. Deeper values are written as JSON, which is also
/// YAML.
const MAX_INDENT: usize = 128;

pub(super) fn document(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => object(&mut out, fields, 0, false),
        Value::Array(items) if !items.is_empty() => array(&mut out, items, 0),
        other => {
            scalar(&mut out, other);
            out.push('\n');
        }
    }
    out
}

/// One line per field. The first continues the line of a list item's dash.
fn object(out: &mut String, fields: &Map<String, Value>, indent: usize, after_dash: bool) {
    for (index, (key, value)) in fields.iter().enumerate() {
        if index > 0 || !after_dash {
            pad(out, indent);
        }
        text(out, key);
        out.push(':');
        match value {
            Value::Object(fields) if !fields.is_empty() && indent < MAX_INDENT => {
                out.push('\n');
                object(out, fields, indent + 2, false);
            }
            // Lists are not indented below their key, as in kubectl's output.
            Value::Array(items) if !items.is_empty() && indent < MAX_INDENT => {
                out.push('\n');
                array(out, items, indent);
            }
            other => {
                out.push(' ');
                scalar(out, other);
                out.push('\n');
            }
        }
    }
}

fn array(out: &mut String, items: &[Value], indent: usize) {
    for item in items {
        pad(out, indent);
        out.push_str("- ");
        match item {
            Value::Object(fields) if !fields.is_empty() && indent < MAX_INDENT => {
                object(out, fields, indent + 2, true);
            }
            Value::Array(items) if !items.is_empty() && indent < MAX_INDENT => {
                // The dash of a nested list has a line of its own.
                out.pop();
                out.push('\n');
                array(out, items, indent + 2);
            }
            other => {
                scalar(out, other);
                out.push('\n');
            }
        }
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn scalar(out: &mut String, value: &Value) {
    match value {
        Value::String(value) => text(out, value),
        Value::Number(number) if number.is_f64() => {
            out.push_str(&go_json::general_text(number.as_f64().unwrap_or_default()));
        }
        // Other numbers, literals, empty lists and objects and deeply nested ones are written as in JSON.
        other => out.push_str(&other.to_string()),
    }
}

/// A plain scalar if it would be read as the same string, otherwise quoted as in JSON.
fn text(out: &mut String, value: &str) {
    if is_plain(value) { out.push_str(value) } else { out.push_str(&Value::from(value).to_string()) }
}

fn is_plain(value: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
    let starts_well = value.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'/');
    starts_well
        && value.bytes().all(is_word)
        && matches!(resolve::plain(value), Resolved::Value(Value::String(_)))
        && !looks_like_timestamp(value)
}

/// Some readers resolve dates to timestamps.
fn looks_like_timestamp(value: &str) -> bool {
    value.len() > 4 && value.as_bytes()[4] == b'-' && value.as_bytes()[..4].iter().all(u8::is_ascii_digit)
}
