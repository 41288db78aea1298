//! Field selectors, such as `spec.nodeName=a,status.phase!=Running`.
//!
//! Each kind defines its selectable fields; this module works on names and values.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::gvk::GroupVersionKind;

/// A requirement on one field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The name of the field.
    pub field: Box<str>,
    /// True for `=`, false for `!=`.
    pub equal: bool,
    /// The value, unescaped.
    pub value: Box<str>,
}

/// A field selector: an object matches if it meets all requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

/// The reason why a string is not a field selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// A term has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{part}'")]
    NoOperator {
        /// The selector.
        selector: String,
        /// The term.
        part: String,
    },
    /// A backslash precedes a character that is not escapable.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    InvalidEscape(String),
    /// A comma or equals sign in a value is not escaped; the message prints its code point.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

/// A kind does not support a field in selectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field label not supported: {field}")]
pub struct UnsupportedField {
    /// The kind.
    pub kind: GroupVersionKind,
    /// The name of the field.
    pub field: String,
}

impl Selector {
    /// Returns the selector that matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Returns the selector for objects with this value of a field.
    pub fn equals(field: impl Into<Box<str>>, value: impl Into<Box<str>>) -> Self {
        Self::new([Requirement { field: field.into(), equal: true, value: value.into() }])
    }

    /// Returns the selector of these requirements.
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        Self { requirements: requirements.into_iter().collect() }
    }

    /// Returns true if an object matches; `lookup` returns the values of its fields. An absent
    /// field is empty.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let found = lookup(&requirement.field).unwrap_or_default();
            (found == &*requirement.value) == requirement.equal
        })
    }

    /// Returns true if every object matches.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the requirements.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns the value that this field must have, if there is one. Used for index lookups.
    pub fn requires_exact_match(&self, field: &str) -> Option<&str> {
        let requirement =
            self.requirements.iter().find(|requirement| requirement.equal && &*requirement.field == field)?;
        Some(&requirement.value)
    }

    /// Converts fields and values, or rejects them; `None` drops the requirement.
    ///
    /// # Errors
    /// The first error of `transform`.
    pub fn transform<E>(
        &self,
        mut transform: impl FnMut(&str, &str) -> Result<Option<(Box<str>, Box<str>)>, E>,
    ) -> Result<Self, E> {
        let mut requirements = Vec::with_capacity(self.requirements.len());
        for requirement in &self.requirements {
            if let Some((field, value)) = transform(&requirement.field, &requirement.value)? {
                requirements.push(Requirement { field, value, equal: requirement.equal });
            }
        }
        Ok(Self { requirements })
    }
}

impl FromStr for Selector {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut parts = split_parts(text);
        parts.sort_unstable();
        let mut requirements = Vec::with_capacity(parts.len());
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let (field, equal, value) = split_part(part)
                .ok_or_else(|| ParseError::NoOperator { selector: text.to_owned(), part: part.to_owned() })?;
            let value = unescape(value)?;
            // A requirement with empty field and empty value is dropped, as in apimachinery.
            if !(field.is_empty() && value.is_empty()) {
                requirements.push(Requirement { field: field.into(), equal, value: value.into() });
            }
        }
        Ok(Self { requirements })
    }
}

/// Splits the selector at unescaped commas.
fn split_parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        if byte == b',' && !escaped {
            parts.push(&text[start..at]);
            start = at + 1;
        }
        escaped = byte == b'\\' && !escaped;
    }
    parts.push(&text[start..]);
    parts
}

/// Splits a term at the first operator into field, equality and value.
fn split_part(part: &str) -> Option<(&str, bool, &str)> {
    let equals = part.find('=')?;
    let value = &part[equals + 1..];
    match part[..equals].strip_suffix('!') {
        Some(field) => Some((field, false, value)),
        None => Some((&part[..equals], true, value.strip_prefix('=').unwrap_or(value))),
    }
}

fn unescape(value: &str) -> Result<Cow<'_, str>, ParseError> {
    if !value.contains(['\\', ',', '=']) {
        return Ok(Cow::Borrowed(value));
    }
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                Some(other) => return Err(ParseError::InvalidEscape(format!("\\{other}"))),
                None => return Err(ParseError::InvalidEscape("\\".to_owned())),
            },
            ',' | '=' => return Err(ParseError::Unescaped(c)),
            _ => plain.push(c),
        }
    }
    Ok(Cow::Owned(plain))
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        write!(f, "{}{}{value}", self.field, if self.equal { "=" } else { "!=" })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<&'static str> {
        match name {
            "a" => Some("1"),
            "b" => Some("x=,\\"),
            _ => None,
        }
    }

    #[test]
    fn parsed_selector_prints_canonically_and_matches() {
        for (text, expected, matches) in [
            ("", "", true),
            (",", "", true),
            ("a=1", "a=1", true),
            ("a==1,", "a=1", true),
            ("a!=1", "a!=1", false),
            ("z=,a=1", "a=1,z=", true),
            ("z!=", "z!=", false),
            (r"b=x\=\,\\", r"b=x\=\,\\", true),
            ("a=2,a=1", "a=1,a=2", false),
            ("=1", "=1", false),
            ("a=1,=", "a=1", true),
            ("!a=1", "!a=1", false),
        ] {
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector.to_string(), expected, "{text:?}");
            assert_eq!(selector.matches(lookup), matches, "{text:?}");
        }
    }

    #[test]
    fn parse_errors_match_kube_apiserver() {
        for (text, expected) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
            (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
            ("a=1\\", r"invalid field selector: invalid escape sequence: \"),
            ("a=1=2", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(text.parse::<Selector>().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn requires_exact_match_returns_value_for_index() {
        let selector: Selector = "a!=2,a=1".parse().unwrap();
        assert_eq!(selector.requires_exact_match("a"), Some("1"));
        assert_eq!(selector.requires_exact_match("b"), None);
        let renamed =
            selector.transform(
                |field, value| {
                    if field == "a" { Ok(Some(("c".into(), value.into()))) } else { Err(()) }
                },
            );
        assert_eq!(renamed.unwrap().to_string(), "c!=2,c=1");
    }
}
