//! Field paths of validation rules: `.spec.size` or `.labels['a.b']`.

use crate::structural::Schema;

/// Resolves a path to a field of the schema; returns it in the format of validation errors.
pub(crate) fn resolve(text: &str, schema: Schema<'_>) -> Option<String> {
    let mut path = String::new();
    let mut schema = schema;
    let mut tokens = Tokens(text);
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.next()?.to_owned(),
            "[" => {
                let quoted = tokens.next()?;
                let inner = quoted.strip_prefix('\'')?.strip_suffix('\'').filter(|_| quoted.len() > 1)?;
                let name = unescape(inner)?;
                (tokens.next()? == "]").then_some(name)?
            }
            _ => return None,
        };
        if schema.properties().len() > 0 {
            schema = schema.property(&name)?;
            let point = if path.is_empty() { "" } else { "." };
            path.push_str(&format!("{point}{name}"));
        } else {
            schema = schema.additional().schema()?;
            path.push_str(&format!("[{name}]"));
        }
    }
    Some(path)
}

/// Splits a path into tokens: points, brackets, quoted strings with their quotes, and names.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.0.as_bytes();
        let first = *bytes.first()?;
        let end = match first {
            b'.' | b'[' | b']' => 1,
            b'\'' => {
                let closes = |at: &usize| bytes[*at] == b'\'' && bytes[*at - 1] != b'\\';
                (1..bytes.len()).find(closes).map_or(bytes.len(), |at| at + 1)
            }
            _ => self.0.find(['.', '[', ']']).unwrap_or(bytes.len()),
        };
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(token)
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut unescaped = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        // A backslash at the very end is not an escape and is preserved.
        let escaped = if c == '\\' { chars.next() } else { None };
        unescaped.push(match (c, escaped) {
            (c, None) => c,
            (_, Some('a')) => '\x07',
            (_, Some('b')) => '\x08',
            (_, Some('f')) => '\x0c',
            (_, Some('n')) => '\n',
            (_, Some('r')) => '\r',
            (_, Some('t')) => '\t',
            (_, Some('v')) => '\x0b',
            (_, Some(c @ ('\'' | '\\'))) => c,
            (_, Some(_)) => return None,
        });
    }
    Some(unescaped)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Structural;

    #[test]
    fn field_path_resolves_to_schema_field() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"b.c": {"type": "string"}}},
            "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "string"}}}},
        }});
        let schema = Structural::parse(&schema).unwrap();
        for (text, expected) in [
            (".a", Some("a")),
            (".a['b.c']", Some("a.b.c")),
            ("['a']['b.c']", Some("a.b.c")),
            (".m.k.x", Some("m[k].x")),
            (".m['it\\'s']", Some("m[it's]")),
            ("a", None),
            (".a.b", None),
            (".", None),
            (".a[b]", None),
            (".a['b.c'", None),
            (".a.b.c.d", None),
            (".a['\\q']", None),
        ] {
            assert_eq!(resolve(text, schema.root()).as_deref(), expected, "{text}");
        }
    }
}
