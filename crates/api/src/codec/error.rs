//! What is wrong with a body. The texts are those clients and upstream's tests know.

use std::fmt;

use coracle_meta::budget::{BudgetError, MAX_JSON_TEXT_BYTES};
use thiserror::Error;

/// A body that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It is not JSON.
    #[error("{message}")]
    Json {
        /// What was found where something else was expected.
        message: String,
        /// How many bytes were read until then.
        offset: usize,
    },
    /// It is not YAML, or YAML that has no JSON.
    #[error("{message}")]
    Yaml {
        /// What is wrong, with the line.
        message: String,
    },
    /// It is YAML whose aliases stand for more than the body may become.
    #[error("yaml: document contains excessive aliasing")]
    ExcessiveAliasing,
    /// It is not a protobuf message.
    #[error("{message}")]
    Protobuf {
        /// What is wrong.
        message: String,
    },
    /// A value does not fit its field.
    #[error("{message}")]
    Value {
        /// Which value, and what it should be.
        message: String,
    },
    /// The decoded object takes more memory than the body may become, or the request was cancelled.
    #[error("{0}")]
    Budget(#[from] BudgetError),
    /// The JSON text of a document or of a changed object is longer than [`MAX_JSON_TEXT_BYTES`].
    #[error("the object is larger than {MAX_JSON_TEXT_BYTES} bytes of JSON")]
    TextTooLong,
    /// It is in protobuf, but not of a kind that has a protobuf form.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The version it names.
        api_version: String,
        /// The kind it names.
        kind: String,
    },
}

impl DecodeError {
    /// Whether the body stands for an object that is too large, whatever else is wrong with it.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::Budget(_) | Self::TextTooLong)
    }
}

/// Something a strict reader does not accept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Problem {
    /// A field that the type does not have, by its path.
    Unknown(String),
    /// A field that is there more than once, by its path.
    Duplicate(String),
    /// Keys that are more than once in a map, as Go prints them, each with its line.
    YamlDuplicates(Vec<(usize, String)>),
}

impl Problem {
    /// Each of what it tells, in words of its own.
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

/// Text in quotes as Go prints it.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        self.0.chars().try_for_each(|character| write_escaped(f, character, '"'))?;
        f.write_str("\"")
    }
}

/// One character as Go prints it between quotes of this sort.
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
    fn problems_read_as_upstream_words_them() {
        assert_eq!(Problem::Unknown("spec.x".into()).to_string(), "unknown field \"spec.x\"");
        assert_eq!(Problem::Duplicate("a\"\n".into()).to_string(), "duplicate field \"a\\\"\\n\"");
        let duplicates = Problem::YamlDuplicates(vec![(3, "\"kind\"".into()), (9, "1".into())]);
        let text = "yaml: unmarshal errors:\n  line 3: key \"kind\" already set in map\n  line 9: key 1 already set in map";
        assert_eq!(duplicates.to_string(), text);
    }
}
