//! Validation of DNS labels and subdomains according to RFC 1123 and RFC 1035.

use super::{Messages, max_length_bytes, max_length_characters, regex_error};

/// Maximum length of a label, in bytes.
pub const DNS1123_LABEL_MAX_LENGTH: usize = 63;

/// Maximum length of a subdomain, in bytes.
pub const DNS1123_SUBDOMAIN_MAX_LENGTH: usize = 253;

const LABEL_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_REGEX: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const CASELESS_MESSAGE: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const UNDERSCORE_REGEX: &str = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const UNDERSCORE_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
const DNS1035_REGEX: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const DNS1035_MESSAGE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const WILDCARD_REGEX: &str = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const WILDCARD_MESSAGE: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";

/// Validates a DNS label, such as the name of a namespace: `my-name`.
pub fn dns1123_label(value: &str) -> Messages {
    let mut messages = Messages::new();
    if value.len() > DNS1123_LABEL_MAX_LENGTH {
        messages.push(max_length_characters(DNS1123_LABEL_MAX_LENGTH));
    }
    if !is_label(value) {
        messages.push(if is_subdomain(value) {
            "must not contain dots".into()
        } else {
            regex_error(LABEL_MESSAGE, LABEL_REGEX, &["my-name", "123-abc"]).into()
        });
    }
    messages
}

/// Validates a DNS subdomain, the rule for most names: `example.com`.
pub fn dns1123_subdomain(value: &str) -> Messages {
    let mut messages = Messages::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        messages.push(max_length_characters(DNS1123_SUBDOMAIN_MAX_LENGTH));
    }
    if !is_subdomain(value) {
        messages.push(regex_error(SUBDOMAIN_MESSAGE, SUBDOMAIN_REGEX, &["example.com"]).into());
    }
    messages
}

/// Validates a DNS subdomain, with the message used for label keys.
pub(super) fn dns1123_subdomain_of_key(value: &str) -> Messages {
    let mut messages = Messages::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        messages.push(max_length_bytes(DNS1123_SUBDOMAIN_MAX_LENGTH));
    }
    if !is_subdomain(value) {
        messages.push(regex_error(SUBDOMAIN_MESSAGE, SUBDOMAIN_REGEX, &["example.com"]).into());
    }
    messages
}

/// Validates a DNS subdomain that may contain upper-case letters.
pub fn dns1123_subdomain_caseless(value: &str) -> Messages {
    let mut messages = Messages::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        messages.push(max_length_bytes(DNS1123_SUBDOMAIN_MAX_LENGTH));
    }
    if !is_subdomain(&value.to_ascii_lowercase()) {
        messages.push(regex_error(CASELESS_MESSAGE, SUBDOMAIN_REGEX, &["Example.com"]).into());
    }
    messages
}

/// Validates a DNS subdomain whose labels may contain underscores, such as a DNS search path.
pub fn dns1123_subdomain_with_underscore(value: &str) -> Messages {
    let mut messages = Messages::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        messages.push(max_length_characters(DNS1123_SUBDOMAIN_MAX_LENGTH));
    }
    if !value.split('.').all(is_label_with_underscore) {
        messages.push(regex_error(UNDERSCORE_MESSAGE, UNDERSCORE_REGEX, &["example.com"]).into());
    }
    messages
}

/// Validates a DNS label that starts with a letter, such as the name of a service: `my-name`.
pub fn dns1035_label(value: &str) -> Messages {
    let mut messages = Messages::new();
    if value.len() > DNS1123_LABEL_MAX_LENGTH {
        messages.push(max_length_characters(DNS1123_LABEL_MAX_LENGTH));
    }
    if !(is_label(value) && value.starts_with(|c: char| c.is_ascii_lowercase())) {
        messages.push(regex_error(DNS1035_MESSAGE, DNS1035_REGEX, &["my-name", "abc-123"]).into());
    }
    messages
}

/// Validates a wildcard subdomain, such as the host of an ingress rule: `*.example.com`.
pub fn wildcard_dns1123_subdomain(value: &str) -> Messages {
    let mut messages = Messages::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        messages.push(max_length_characters(DNS1123_SUBDOMAIN_MAX_LENGTH));
    }
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        messages.push(regex_error(WILDCARD_MESSAGE, WILDCARD_REGEX, &["*.example.com"]).into());
    }
    messages
}

fn is_label(value: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    ends_fit(value, alphanumeric) && value.bytes().all(|byte| alphanumeric(byte) || byte == b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_label_with_underscore(value: &str) -> bool {
    let value = value.strip_prefix('_').unwrap_or(value);
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    ends_fit(value, alphanumeric)
        && value.bytes().all(|byte| alphanumeric(byte) || byte == b'-' || byte == b'_')
}

/// Returns true if a value is not empty and its first and last bytes match.
pub(super) fn ends_fit(value: &str, fits: impl Fn(u8) -> bool) -> bool {
    match value.as_bytes() {
        [] => false,
        [first, .., last] => fits(*first) && fits(*last),
        [only] => fits(*only),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_dns_label_is_rejected() {
        let regex = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        assert!(dns1123_label("0-a").is_empty());
        assert!(dns1123_label(&"a".repeat(63)).is_empty());
        assert_eq!(dns1123_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        for bad in ["", "-", "a-", "-a", "A", "a_b", "a b", "ä", "a..b", "a\n"] {
            assert_eq!(dns1123_label(bad), [regex], "{bad:?}");
        }
        assert!(dns1035_label("a-0").is_empty());
        assert_eq!(dns1035_label("0a").len(), 1);
    }

    #[test]
    fn invalid_dns_subdomain_is_rejected() {
        assert!(dns1123_subdomain("a.b-c.0").is_empty());
        assert_eq!(
            dns1123_subdomain("A"),
            [
                r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
        assert_eq!(dns1123_subdomain(&"A".repeat(254)).len(), 2);
        assert!(dns1123_subdomain_caseless("A.b").is_empty());
        assert!(dns1123_subdomain_with_underscore("_a._b_c.d").is_empty());
        assert!(!dns1123_subdomain_with_underscore("__a").is_empty());
        assert!(wildcard_dns1123_subdomain("*.a.b").is_empty());
        for bad in ["*", "*.", "a.b", "*.*.b", "*a.b"] {
            assert_eq!(wildcard_dns1123_subdomain(bad).len(), 1, "{bad:?}");
        }
    }
}
