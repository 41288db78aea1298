//! Validation of label keys and values, and of names as segments of URL paths.

use super::dns::{dns1123_subdomain_of_key, ends_fit};
use super::{EMPTY, Messages, max_length_bytes, regex_error};

/// Maximum length of a label value, in bytes.
pub const LABEL_VALUE_MAX_LENGTH: usize = 63;

const KEY_NAME_MAX_LENGTH: usize = 63;
const KEY_REGEX: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const KEY_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const KEY_EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];
const VALUE_REGEX: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const VALUE_MESSAGE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// Validates a qualified name: the key of a label, an annotation or a finalizer, with an optional
/// prefix: `example.com/MyName`.
pub fn qualified_name(value: &str) -> Messages {
    let (prefix, name) = match value.split_once('/') {
        None => (None, value),
        Some((_, name)) if name.contains('/') => {
            let regex = regex_error(KEY_MESSAGE, KEY_REGEX, KEY_EXAMPLES);
            let end = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {regex} {end}").into()];
        }
        Some((prefix, name)) => (Some(prefix), name),
    };
    let mut messages = prefix.map_or_else(Messages::new, prefix_part);
    if name.is_empty() {
        messages.push(format!("name part {EMPTY}").into());
    } else if name.len() > KEY_NAME_MAX_LENGTH {
        messages.push(format!("name part {}", max_length_bytes(KEY_NAME_MAX_LENGTH)).into());
    }
    if !is_key_name(name) {
        messages.push(format!("name part {}", regex_error(KEY_MESSAGE, KEY_REGEX, KEY_EXAMPLES)).into());
    }
    messages
}

fn prefix_part(prefix: &str) -> Messages {
    if prefix.is_empty() {
        return vec![format!("prefix part {EMPTY}").into()];
    }
    let messages = dns1123_subdomain_of_key(prefix);
    messages.into_iter().map(|message| format!("prefix part {message}").into()).collect()
}

/// Validates the value of a label; may be empty.
pub fn label_value(value: &str) -> Messages {
    let mut messages = Messages::new();
    if value.len() > LABEL_VALUE_MAX_LENGTH {
        messages.push(max_length_bytes(LABEL_VALUE_MAX_LENGTH));
    }
    if !value.is_empty() && !is_key_name(value) {
        messages.push(regex_error(VALUE_MESSAGE, VALUE_REGEX, &["MyValue", "my_value", "12345"]).into());
    }
    messages
}

fn is_key_name(value: &str) -> bool {
    ends_fit(value, |byte| byte.is_ascii_alphanumeric())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Validates a name used as a segment of a URL path.
pub fn path_segment_name(value: &str) -> Messages {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'").into()];
    }
    path_segment_prefix(value)
}

/// Validates the prefix of a name used as a segment of a URL path.
pub fn path_segment_prefix(value: &str) -> Messages {
    let mut messages = Messages::new();
    if value.contains('/') {
        messages.push("may not contain '/'".into());
    }
    if value.contains('%') {
        messages.push("may not contain '%'".into());
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_qualified_name_is_rejected() {
        let name_part = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        for good in ["a", "A.b_c-1", "example.com/A", "1/2"] {
            assert!(qualified_name(good).is_empty(), "{good:?}");
        }
        assert_eq!(qualified_name(""), ["name part must be non-empty", name_part]);
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name("a/"), ["name part must be non-empty", name_part]);
        assert_eq!(qualified_name("a b"), [name_part]);
        assert_eq!(qualified_name(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
        assert!(qualified_name("A/b")[0].starts_with("prefix part a lowercase RFC 1123 subdomain"));
        let long = qualified_name(&format!("{}/b", "a".repeat(254)));
        assert_eq!(long, ["prefix part must be no more than 253 bytes"]);
        assert_eq!(
            qualified_name("a/b/c"),
            [
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ]
        );
    }

    #[test]
    fn invalid_label_value_is_rejected() {
        for good in ["", "a", "A.b_c-1"] {
            assert!(label_value(good).is_empty(), "{good:?}");
        }
        assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
        assert_eq!(
            label_value("-a"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
    }

    #[test]
    fn invalid_path_segment_is_rejected() {
        assert!(path_segment_name("system:node").is_empty());
        assert_eq!(path_segment_name("."), ["may not be '.'"]);
        assert_eq!(path_segment_name("a/b%c"), ["may not contain '/'", "may not contain '%'"]);
    }
}
