//! YAML errors, with the messages of the parser that Kubernetes uses where ours differ.

use granit_parser::ScanError;
use serde_json::Value;

use super::resolve::Resolved;
use crate::codec::error::{DecodeError, Quoted};

/// Beginnings of our parser's messages, and the equivalent messages of libyaml.
const WORDS: &[(&str, &str)] = &[
    ("tabs disallowed", "found character that cannot start any token"),
    ("unclosed quote", "found unexpected end of stream"),
    ("misplaced bracket", "did not find expected node content"),
    ("mismatched bracket '['", "did not find expected ',' or ']'"),
    ("mismatched bracket '{'", "did not find expected ',' or '}'"),
];

/// Errors of libyaml's parser rather than its scanner. The parser counts lines from 0.
const OF_PARSER: &[&str] = &[
    "did not find expected node content",
    "did not find expected '-' indicator",
    "did not find expected key",
    "did not find expected ',' or ']'",
    "did not find expected ',' or '}'",
    "did not find expected <document start>",
];

/// Converts an error of our parser into the message of libyaml.
pub(super) fn of_parser(error: &ScanError, document: &str) -> DecodeError {
    let message = error.info();
    if message.starts_with("unexpected character") {
        // Reserved indicators; all others are control characters.
        if message.ends_with("`@'") || message.ends_with("``'") {
            return of_line(error.marker().line(), "found character that cannot start any token");
        }
        return fault("yaml: control characters are not allowed");
    }
    // libyaml does not report the context.
    let message = message
        .split_once(", ")
        .filter(|(reading, _)| reading.starts_with("while "))
        .map_or(&*message, |(_, what)| what);
    if let Some(bracket) = message.strip_prefix("unclosed bracket '") {
        // libyaml begins a new line before the end of the document.
        let lines = document.lines().count().max(1);
        return at(lines, unclosed(bracket, document));
    }
    if message.starts_with("found unknown anchor") {
        let line = document.lines().nth(error.marker().line().saturating_sub(1)).unwrap_or_default();
        let column: String = line.chars().skip(error.marker().col()).collect();
        let name = column.split('*').nth(1).unwrap_or_default();
        let name: String = name.chars().take_while(|c| c.is_alphanumeric() || "_-".contains(*c)).collect();
        return fault(&format!("yaml: unknown anchor '{name}' referenced"));
    }
    let known = WORDS.iter().find(|(ours, _)| message.starts_with(ours));
    let words = known.map_or(message, |(_, upstream)| upstream);
    match error.marker().line() {
        line if OF_PARSER.contains(&words) && line > 1 => at(line - 1, words),
        line => of_line(line, words),
    }
}

/// The message of libyaml for a document that ends within brackets.
fn unclosed(bracket: &str, document: &str) -> &'static str {
    if document.trim_end().ends_with(['[', '{', ',', ':']) {
        "did not find expected node content"
    } else if bracket.starts_with('[') {
        "did not find expected ',' or ']'"
    } else {
        "did not find expected ',' or '}'"
    }
}

/// The line is not reported if it is the first.
fn of_line(line: usize, words: &str) -> DecodeError {
    if line <= 1 { fault(&format!("yaml: {words}")) } else { at(line, words) }
}

/// The error of a value that does not match its tag.
pub(super) fn of_tag(found: &Resolved, text: &str, tag: &str) -> DecodeError {
    let kind = match found {
        Resolved::Value(Value::Null) => "null",
        Resolved::Value(Value::Bool(_)) => "bool",
        Resolved::Value(Value::Number(number)) if !number.is_f64() => "int",
        Resolved::Value(Value::Number(_)) | Resolved::NoNumber(_) => "float",
        Resolved::Value(_) => "str",
    };
    fault(&format!("yaml: cannot decode !!{kind} `{text}` as a !!{tag}"))
}

/// The error of a key that is a list or a map.
pub(super) fn of_key(key: &Value) -> DecodeError {
    fault(&format!("yaml: invalid map key: {}", go_syntax(key)))
}

pub(super) fn at(line: usize, message: &str) -> DecodeError {
    fault(&format!("yaml: line {line}: {message}"))
}

pub(super) fn fault(message: &str) -> DecodeError {
    DecodeError::Yaml { message: message.to_owned() }
}

/// A value as a Go literal.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => Quoted(text).to_string(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{}:{}", Quoted(name), go_syntax(value));
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("map[interface {{}}]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::build::document;
    use crate::codec::DecodeBudget;

    /// Responses of kube-apiserver v1.36.4 to applied documents like these.
    #[test]
    fn errors_have_the_messages_of_kube_apiserver() {
        for (text, message) in [
            ("a: b: c", "yaml: mapping values are not allowed in this context"),
            ("x: 1\na: b: c", "yaml: line 2: mapping values are not allowed in this context"),
            ("a:\n\tb: 1", "yaml: line 2: found character that cannot start any token"),
            ("'", "yaml: found unexpected end of stream"),
            ("a: [", "yaml: line 1: did not find expected node content"),
            ("a: {b:", "yaml: line 1: did not find expected node content"),
            ("c: 1\na: [1", "yaml: line 2: did not find expected ',' or ']'"),
            ("a: {b\n", "yaml: line 1: did not find expected ',' or '}'"),
            ("a: [b}", "yaml: did not find expected ',' or ']'"),
            ("a: {b]", "yaml: did not find expected ',' or '}'"),
            ("a: }", "yaml: did not find expected node content"),
            ("a: b\nc: }", "yaml: line 1: did not find expected node content"),
            ("- a\nb: c", "yaml: line 1: did not find expected '-' indicator"),
            ("a: @", "yaml: found character that cannot start any token"),
            ("a: `", "yaml: found character that cannot start any token"),
            ("a: &x\nb: *y", "yaml: unknown anchor 'y' referenced"),
            ("%", "yaml: could not find expected directive name"),
            ("x: 1\na: [\n\n", "yaml: line 3: did not find expected node content"),
            ("a: {b: ", "yaml: line 1: did not find expected node content"),
            ("x: 1\na: {b: c", "yaml: line 2: did not find expected ',' or '}'"),
            ("a: !!binary x", "yaml: !!binary value contains invalid base64 data"),
            ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
            ("a: \u{1}", "yaml: control characters are not allowed"),
            ("[1]: 2", "yaml: invalid map key: []interface {}{1}"),
            ("{a: b}: 2", "yaml: invalid map key: map[interface {}]interface {}{\"a\":\"b\"}"),
        ] {
            assert_eq!(
                document(text.as_bytes(), &mut DecodeBudget::default()).unwrap_err().to_string(),
                message,
                "{text}"
            );
        }
    }
}
