//! Path elements: a step from a value to one of its children.
//!
//! In `fieldsV1` an element is a string: `f:name` for a field, `k:{"name":"web"}` for an item of a
//! list with keys, `v:"value"` for a member of a set, `i:0` for a list index.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

use super::fields_v1::FieldsV1Error;
use super::{go_format, value_order};

/// A step from a value to one of its children.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of an object, or an entry of a map.
    Field(Box<str>),
    /// A list item identified by the values of its keys, ascending by name.
    Key(Box<[KeyField]>),
    /// A member of a set.
    Value(Box<Value>),
    /// A list index.
    Index(i64),
}

/// A key of a list item and its value.
#[derive(Clone, Debug)]
pub struct KeyField {
    /// The name of the key field.
    pub name: Box<str>,
    /// Its value.
    pub value: Value,
}

impl PathElement {
    /// Creates the element of a field.
    pub fn field(name: impl Into<Box<str>>) -> Self {
        Self::Field(name.into())
    }

    /// Creates the element of a list item with keys.
    pub fn key(mut fields: Vec<KeyField>) -> Self {
        if fields.len() > 1 {
            fields.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Self::Key(fields.into())
    }

    /// Creates the element of a member of a set.
    pub fn value(value: Value) -> Self {
        Self::Value(Box::new(value))
    }

    /// Parses the string form. Returns `None` for an unknown kind of element, which callers skip
    /// instead of rejecting, because later versions of Kubernetes may write more kinds.
    ///
    /// # Errors
    /// If the text is not a path element.
    pub fn parse(text: &str) -> Result<Option<Self>, FieldsV1Error> {
        let bad = |reason: &str| FieldsV1Error::Element { text: text.to_owned(), reason: reason.to_owned() };
        if text.len() < 2 {
            return Err(bad("key must be 2 characters long"));
        }
        if text.as_bytes()[1] != b':' {
            return Err(bad("missing colon"));
        }
        // Slicing at byte 2 is on a character boundary: the second byte is a colon.
        let rest = &text[2..];
        match text.as_bytes()[0] {
            b'f' => Ok(Some(Self::field(rest))),
            b'v' => Ok(Some(Self::value(floats(parse_json(rest).map_err(|reason| bad(&reason))?)))),
            b'k' => match parse_json(rest).map_err(|reason| bad(&reason))? {
                Value::Object(fields) => Ok(Some(Self::key(
                    fields
                        .into_iter()
                        .map(|(name, value)| KeyField { name: name.into(), value: floats(value) })
                        .collect(),
                ))),
                _ => Err(bad("keys must be an object")),
            },
            b'i' => rest.parse().map(|index| Some(Self::Index(index))).map_err(|_| bad("invalid index")),
            _ => Ok(None),
        }
    }

    /// Appends the string form.
    pub(super) fn write_to(&self, out: &mut String) {
        match self {
            Self::Field(name) => {
                out.push_str("f:");
                out.push_str(name);
            }
            Self::Key(fields) => {
                out.push_str("k:{");
                for (at, field) in fields.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    push_json_string(out, &field.name, false);
                    out.push(':');
                    push_json(out, &field.value);
                }
                out.push('}');
            }
            Self::Value(value) => {
                out.push_str("v:");
                push_json(out, value);
            }
            Self::Index(index) => out.push_str(&format!("i:{index}")),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Converts numbers to floats, as Go decodes those in `fieldsV1`; the difference shows in printed
/// paths.
fn floats(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            number.as_f64().and_then(Number::from_f64).map_or(Value::Null, Value::Number)
        }
        other => other,
    }
}

/// Encodes JSON as kube-apiserver does: with HTML escapes.
pub(super) fn push_json(out: &mut String, value: &Value) {
    match value {
        Value::Number(number) => out.push_str(&go_format::json_number(number)),
        Value::String(text) => push_json_string(out, text, true),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                push_json(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (at, (name, field)) in fields.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                push_json_string(out, name, true);
                out.push(':');
                push_json(out, field);
            }
            out.push('}');
        }
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
    }
}

/// Encodes a JSON string with the escapes that kube-apiserver's encoder chooses.
pub(super) fn push_json_string(out: &mut String, text: &str, html_safe: bool) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if html_safe => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            other => out.push(other),
        }
    }
    out.push('"');
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => compare_keys(left, right),
            (Self::Value(left), Self::Value(right)) => value_order::compare(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

fn compare_keys(left: &[KeyField], right: &[KeyField]) -> Ordering {
    left.iter()
        .zip(right)
        .map(|(left, right)| {
            left.name.cmp(&right.name).then_with(|| value_order::compare(&left.value, &right.value))
        })
        .find(|order| order.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// Formats an element of a path: `.name`, `[name="web"]`, `[="value"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (at, field) in fields.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(f, "{comma}{}={}", field.name, value_order::display(&field.value))?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", value_order::display(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_form_round_trips() {
        for (text, printed) in [
            ("f:spec", ".spec"),
            ("f:a.b/c", ".a.b/c"),
            (r#"k:{"name":"web"}"#, r#"[name="web"]"#),
            (r#"k:{"containerPort":80,"protocol":"TCP"}"#, r#"[containerPort=80,protocol="TCP"]"#),
            (r#"v:"a\u003cb""#, r#"[="a<b"]"#),
            ("v:1.5", "[=1.5]"),
            ("v:true", "[=true]"),
            ("v:null", "[=null]"),
            ("i:-3", "[-3]"),
        ] {
            let element = PathElement::parse(text).unwrap().unwrap();
            let mut written = String::new();
            element.write_to(&mut written);
            assert_eq!(written, text);
            assert_eq!(element.to_string(), printed);
        }
    }

    #[test]
    fn malformed_element_is_rejected_and_unknown_kind_skipped() {
        for text in ["", "f", "ff", "é", "k:[]", "k:{", "v:", "v:{]", "i:x", "i:99999999999999999999"] {
            assert!(PathElement::parse(text).is_err(), "{text:?}");
        }
        assert!(PathElement::parse("x:anything").unwrap().is_none());
    }

    #[test]
    fn elements_are_ordered_by_kind_and_value() {
        let ascending = [
            "f:a",
            "f:b",
            r#"k:{"containerPort":80,"protocol":"TCP"}"#,
            r#"k:{"containerPort":80,"protocol":"UDP"}"#,
            r#"k:{"containerPort":443}"#,
            r#"k:{"name":"a"}"#,
            "v:80",
            "v:443",
            "i:2",
            "i:10",
        ]
        .map(|text| PathElement::parse(text).unwrap().unwrap());
        assert!(ascending.is_sorted_by(|a, b| a < b));
    }
}
