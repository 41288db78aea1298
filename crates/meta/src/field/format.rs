//! Formatting of values in messages: Go's string quoting and JSON encoding.
//!
//! Rust's own formats use different escapes, and messages have to be identical to those of
//! kube-apiserver.

use std::fmt::{self, Write};

use serde_json::Value;

use crate::go_json;

/// Formats text in double quotes with Go's escapes, like `%q`.
pub fn quoted(text: &str) -> Quoted<'_> {
    Quoted(text)
}

/// Displays quoted text; see [`quoted`].
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\x07' => f.write_str("\\a")?,
                '\x08' => f.write_str("\\b")?,
                '\x0c' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\x0b' => f.write_str("\\v")?,
                ' '..='~' => f.write_char(c)?,
                '\0'..='\x7f' => write!(f, "\\x{:02x}", u32::from(c))?,
                _ if is_printable(c) => f.write_char(c)?,
                '\u{80}'..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(c))?,
                _ => write!(f, "\\U{:08x}", u32::from(c))?,
            }
        }
        f.write_char('"')
    }
}

/// Returns true if Go considers the character printable: a letter, mark, number, punctuation,
/// symbol or the space.
pub(crate) fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    // The standard library exposes its table only through `escape_debug`, which does not escape a
    // combining mark unless it comes first; neither does Go.
    let mut pair = [b'a', 0, 0, 0, 0];
    let length = c.encode_utf8(&mut pair[1..]).len();
    let Ok(pair) = std::str::from_utf8(&pair[..=length]) else { return false };
    pair.escape_debug().nth(1) == Some(c)
}

/// Formats JSON as Go's encoder does: compact, with `<`, `>` and `&` escaped.
pub fn json_text(value: &Value) -> String {
    let mut text = String::new();
    write_json(&mut text, value);
    text
}

fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => out.push_str(&go_json::float_text(float)),
            _ => out.push_str(&number.to_string()),
        },
        Value::String(text) => write_json_string(out, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                out.push(if index == 0 { '[' } else { ',' });
                write_json(out, item);
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        Value::Object(fields) => {
            for (index, (name, field)) in fields.iter().enumerate() {
                out.push(if index == 0 { '{' } else { ',' });
                write_json_string(out, name);
                out.push(':');
                write_json(out, field);
            }
            out.push_str(if fields.is_empty() { "{}" } else { "}" });
        }
    }
}

/// Writes a JSON string with Go's escapes.
pub(crate) fn write_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_are_quoted_as_in_go() {
        for (text, expected) in [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}\0\u{7f}", r#""\a\b\f\n\r\t\v\x00\x7f""#),
            ("é日😀", r#""é日😀""#),
            ("e\u{301}", "\"e\u{301}\""),
            ("\u{301}", "\"\u{301}\""),
            ("\u{80}\u{a0}\u{200b}\u{2028}\u{feff}", r#""\u0080\u00a0\u200b\u2028\ufeff""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(quoted(text).to_string(), expected);
        }
    }

    #[test]
    fn json_is_written_as_in_go() {
        let value = json!({"b": [1, -2.5, true, null, []], "a": {"<&>": "\u{2028}\u{1}\n\u{8}"}, "c": {}});
        let expected = r#"{"a":{"\u003c\u0026\u003e":"\u2028\u0001\n\b"},"b":[1,-2.5,true,null,[]],"c":{}}"#;
        assert_eq!(json_text(&value), expected);
    }
}
