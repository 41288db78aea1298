//! Errors of bodies, with the messages that clients and Kubernetes' own tests expect.

use std::fmt;

use coracle_meta::budget::{BudgetError, MAX_JSON_TEXT_BYTES};
use thiserror::Error;

/// A body that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The body is not JSON.
    #[error("{message}")]
    Json {
        /// The error, as Go's decoder reports it.
        message: String,
        /// Number of bytes read before the error.
        offset: usize,
    },
    /// The body is not YAML, or has no JSON equivalent.
    #[error("{message}")]
    Yaml {
        /// The error, with its line.
        message: String,
    },
    /// The YAML document expands, by its aliases, to more than the limit.
    #[error("yaml: document contains excessive aliasing")]
    ExcessiveAliasing,
    /// The body is not a protobuf message.
    #[error("{message}")]
    Protobuf {
        /// The error.
        message: String,
    },
    /// A value does not have the type of its field.
    #[error("{message}")]
    Value {
        /// The error, with the path and the expected type.
        message: String,
    },
    /// The decoded object exceeds the memory budget, or the request was cancelled.
    #[error("{0}")]
    Budget(#[from] BudgetError),
    /// The JSON text of a YAML document or of a changed object is longer than [`MAX_JSON_TEXT_BYTES`].
    #[error("the object is larger than {MAX_JSON_TEXT_BYTES} bytes of JSON")]
    TextTooLong,
    /// The body is protobuf of a kind without a protobuf form.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The `apiVersion` of the body.
        api_version: String,
        /// The `kind` of the body.
        kind: String,
    },
}

impl DecodeError {
    /// Whether the object is too large, whatever other errors it has.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::Budget(_) | Self::TextTooLong)
    }
}

/// A problem that strict field validation rejects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Problem {
    /// A field that the type does not have, by its path.
    Unknown(String),
    /// A duplicate field, by its path.
    Duplicate(String),
    /// Duplicate keys of YAML maps, as Go prints them, with their lines.
    YamlDuplicates(Vec<(usize, String)>),
}

impl Problem {
    /// A message for each field or key.
    pub fn parts(&self) -> Vec<String> {
        match self {
            Self::Unknown(_) | Self::Duplicate(_) => vec![self.to_string()],
            Self::YamlDuplicates(keys) => {
                keys.iter().map(|(line, key)| format!("line {line}: key {key} already set in map")).collect()
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(path) => write!(f, "unknown field {}", Quoted(path)),
            Self::Duplicate(path) => write!(f, "duplicate field {}", Quoted(path)),
            Self::YamlDuplicates(keys) => {
                f.write_str("yaml: unmarshal errors:")?;
                keys.iter()
                    .try_for_each(|(line, key)| write!(f, "\n  line {line}: key {key} already set in map"))
            }
        }
    }
}

/// A string in quotes as Go prints it.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        self.0.chars().try_for_each(|character| write_escaped(f, character, '"'))?;
        f.write_str("\"")
    }
}

/// A character as Go prints it within this quote.
pub(super) fn write_escaped(f: &mut impl fmt::Write, character: char, quote: char) -> fmt::Result {
    match character {
        '\u{7}' => f.write_str("\\a"),
        '\u{8}' => f.write_str("\\b"),
        '\u{b}' => f.write_str("\\v"),
        '\u{c}' => f.write_str("\\f"),
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        '\\' => f.write_str("\\\\"),
        _ if character == quote => write!(f, "\\{quote}"),
        _ if character < ' ' || character == '\u{7f}' => write!(f, "\\x{:02x}", u32::from(character)),
        _ if character.is_control() => write!(f, "\\u{:04x}", u32::from(character)),
        _ => f.write_char(character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_have_the_messages_of_kube_apiserver() {
        assert_eq!(Problem::Unknown("spec.x".into()).to_string(), "unknown field \"spec.x\"");
        assert_eq!(Problem::Duplicate("a\"\n".into()).to_string(), "duplicate field \"a\\\"\\n\"");
        let duplicates = Problem::YamlDuplicates(vec![(3, "\"kind\"".into()), (9, "1".into())]);
        let text = "yaml: unmarshal errors:\n  line 3: key \"kind\" already set in map\n  line 9: key 1 already set in map";
        assert_eq!(duplicates.to_string(), text);
    }
}
