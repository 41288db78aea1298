//! What is wrong with a document, in the words of upstream's parser where ours has others for the same.

use granit_parser::ScanError;
use serde_json::Value;

use super::resolve::Resolved;
use crate::codec::error::{DecodeError, Quoted};

/// How our parser begins to say what upstream's says in the words beside it.
const WORDS: &[(&str, &str)] = &[
    ("tabs disallowed", "found character that cannot start any token"),
    ("unclosed quote", "found unexpected end of stream"),
    ("misplaced bracket", "did not find expected node content"),
    ("mismatched bracket '['", "did not find expected ',' or ']'"),
    ("mismatched bracket '{'", "did not find expected ',' or '}'"),
];

/// Faults that libyaml's parser reports, and not its scanner. The parser counts lines from 0.
const OF_PARSER: &[&str] = &[
    "did not find expected node content",
    "did not find expected '-' indicator",
    "did not find expected key",
    "did not find expected ',' or ']'",
    "did not find expected ',' or '}'",
    "did not find expected <document start>",
];

/// The fault that our parser found in a document, in the words of libyaml.
pub(super) fn of_parser(error: &ScanError, document: &str) -> DecodeError {
    let said = error.info();
    if said.starts_with("unexpected character") {
        // Reserved indicators; all others are control characters.
        if said.ends_with("`@'") || said.ends_with("``'") {
            return of_line(error.marker().line(), "found character that cannot start any token");
        }
        return fault("yaml: control characters are not allowed");
    }
    // Upstream does not tell what it was reading.
    let said = said
        .split_once(", ")
        .filter(|(reading, _)| reading.starts_with("while "))
        .map_or(&*said, |(_, what)| what);
    if let Some(bracket) = said.strip_prefix("unclosed bracket '") {
        // libyaml begins a new line before the end of the document.
        let lines = document.lines().count().max(1);
        return at(lines, unclosed(bracket, document));
    }
    if said.starts_with("found unknown anchor") {
        let line = document.lines().nth(error.marker().line().saturating_sub(1)).unwrap_or_default();
        let column: String = line.chars().skip(error.marker().col()).collect();
        let name = column.split('*').nth(1).unwrap_or_default();
        let name: String = name.chars().take_while(|c| c.is_alphanumeric() || "_-".contains(*c)).collect();
        return fault(&format!("yaml: unknown anchor '{name}' referenced"));
    }
    let known = WORDS.iter().find(|(ours, _)| said.starts_with(ours));
    let words = known.map_or(said, |(_, upstream)| upstream);
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

/// A value that is not what its tag says.
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

/// A key that is a list or a map.
pub(super) fn of_key(key: &Value) -> DecodeError {
    fault(&format!("yaml: invalid map key: {}", go_syntax(key)))
}

pub(super) fn at(line: usize, message: &str) -> DecodeError {
    fault(&format!("yaml: line {line}: {message}"))
}

pub(super) fn fault(message: &str) -> DecodeError {
    DecodeError::Yaml { message: message.to_owned() }
}

/// A value as Go would write it in a program.
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

    /// What upstream v1.36.4 answers to applied documents like these.
    #[test]
    fn faults_are_told_in_upstreams_words() {
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
