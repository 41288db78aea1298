//! Formatting of values as in Go, for messages returned to clients.
//!
//! kube-apiserver puts Go's `%v`, `%#v`, `%q` and `%T` into apply errors and conflict paths. Only
//! values that JSON can express are supported.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Formats a string in double quotes (`%q`).
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        push_quoted(&mut out, character);
    }
    out.push('"');
    out
}

fn push_quoted(out: &mut String, character: char) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        ' ' => out.push(' '),
        other if other.is_ascii_control() => push_escape(out, 'x', 2, other),
        other if !(other.is_control() || other.is_whitespace()) => out.push(other),
        other => push_escape(out, 'u', 4, other),
    }
}

fn push_escape(out: &mut String, letter: char, width: usize, character: char) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\\{letter}{:0width$x}", u32::from(character));
}

/// Formats a number as `%v` does.
pub(crate) fn number(number: &Number) -> String {
    match number.as_i64() {
        Some(whole) => whole.to_string(),
        None => float(number.as_f64().unwrap_or_default(), 6, -4),
    }
}

/// Formats a number as Go's JSON encoders do.
pub(super) fn json_number(number: &Number) -> String {
    match number.as_i64() {
        Some(whole) => whole.to_string(),
        None => float(number.as_f64().unwrap_or_default(), 21, -6),
    }
}

/// Formats the shortest decimal of a number; in scientific notation if it is at least `10^above` or
/// smaller than `10^below`.
fn float(value: f64, above: i32, below: i32) -> String {
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if value != 0.0 && (exponent >= above || exponent < below) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    format!("{value}")
}

/// Formats a value as `%v` does.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(amount) => number(amount),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(plain).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(name, field)| format!("{name}:{}", plain(field))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// Formats a value as `%#v` does.
pub(super) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(amount) => number(amount),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(name, field)| format!("{}:{}", quoted(name), syntax(field))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}

/// Returns the Go type of a value (`%T`).
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(amount) if amount.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn float_number(value: f64) -> Number {
        Number::from_f64(value).unwrap()
    }

    #[test]
    fn floats_are_formatted_as_in_go() {
        for (value, plain, as_json) in [
            (80.0, "80", "80"),
            (1_000_000.0, "1e+06", "1000000"),
            (1_234_567.0, "1.234567e+06", "1234567"),
            (123_456.5, "123456.5", "123456.5"),
            (0.0001, "0.0001", "0.0001"),
            (0.00001, "1e-05", "0.00001"),
            (1e-7, "1e-07", "1e-07"),
            (1e21, "1e+21", "1e+21"),
            (0.0, "0", "0"),
            (-2.5, "-2.5", "-2.5"),
        ] {
            assert_eq!(number(&float_number(value)), plain);
            assert_eq!(json_number(&float_number(value)), as_json);
        }
    }

    #[test]
    fn strings_are_quoted_as_in_go() {
        for (text, expected) in [
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\n\t\u{7}\u{1}\u{7f}", r#""\n\t\a\x01\x7f""#),
            ("é\u{a0}\u{2028}", "\"é\\u00a0\\u2028\""),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn values_are_formatted_as_in_go() {
        let value = json!({"a": [1, "x", null], "b": {"c": true}});
        assert_eq!(plain(&value), "map[a:[1 x <nil>] b:map[c:true]]");
        assert_eq!(
            syntax(&value),
            r#"map[string]interface {}{"a":[]interface {}{1, "x", interface {}(nil)}, "b":map[string]interface {}{"c":true}}"#
        );
    }
}
