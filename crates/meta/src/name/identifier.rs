//! Validation of identifiers and small values: environment variables, config keys, ports,
//! percentages.

use super::dns::{DNS1123_SUBDOMAIN_MAX_LENGTH, ends_fit};
use super::{EMPTY, Messages, max_length_characters, regex_error};

/// Maximum length of a port name, in bytes, according to RFC 6335.
const PORT_NAME_MAX_LENGTH: usize = 15;

/// Validates a C identifier, such as the name of a downward-API field: `my_name`.
pub fn c_identifier(value: &str) -> Messages {
    let starts = value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Messages::new();
    }
    let message = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'";
    vec![regex_error(message, "[A-Za-z_][A-Za-z0-9_]*", &["my_name", "MY_NAME", "MyName"]).into()]
}

/// Validates the name of an environment variable by the strict rule, for keys of config maps.
pub fn env_var_name(value: &str) -> Messages {
    let starts = value.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    let mut messages = Messages::new();
    if !(starts && value.bytes().all(is_config_byte)) {
        let message = "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit";
        let examples = &["my.env-name", "MY_ENV.NAME", "MyEnvName1"];
        messages.push(regex_error(message, "[-._a-zA-Z][-._a-zA-Z0-9]*", examples).into());
    }
    messages.extend(parent_directory(value));
    messages
}

/// Validates the name of a container's environment variable: any printable ASCII except the equals
/// sign.
pub fn relaxed_env_var_name(value: &str) -> Messages {
    let mut messages = Messages::new();
    if value.is_empty() {
        messages.push(format!("environment variable name {EMPTY}").into());
    }
    if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        messages.push("a valid environment variable name must consist only of printable ASCII characters other than '='".into());
    }
    messages
}

/// Validates a key of a ConfigMap or Secret.
pub fn config_map_key(value: &str) -> Messages {
    let mut messages = Messages::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        messages.push(max_length_characters(DNS1123_SUBDOMAIN_MAX_LENGTH));
    }
    if value.is_empty() || !value.bytes().all(is_config_byte) {
        let message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        let examples = &["key.name", "KEY_NAME", "key-name"];
        messages.push(regex_error(message, "[-._a-zA-Z0-9]+", examples).into());
    }
    messages.extend(parent_directory(value));
    messages
}

fn is_config_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._".contains(&byte)
}

/// Rejects keys that, used as file names, would leave their directory.
fn parent_directory(value: &str) -> Option<std::borrow::Cow<'static, str>> {
    match value {
        "." => Some("must not be '.'".into()),
        ".." => Some("must not be '..'".into()),
        _ if value.starts_with("..") => Some("must not start with '..'".into()),
        _ => None,
    }
}

/// Validates the name of a port, such as `http`.
pub fn port_name(value: &str) -> Messages {
    let mut messages = Messages::new();
    if value.len() > PORT_NAME_MAX_LENGTH {
        messages.push(max_length_characters(PORT_NAME_MAX_LENGTH));
    }
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if value.is_empty() || !value.bytes().all(fits) {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !value.bytes().any(|byte| byte.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".into());
    }
    if value.contains("--") {
        messages.push("must not contain consecutive hyphens".into());
    }
    if !value.is_empty() && !ends_fit(value, |byte| byte != b'-') {
        messages.push("must not begin or end with a hyphen".into());
    }
    messages
}

/// Validates a port number.
pub fn port_number(value: i64) -> Messages {
    in_range(value, 1, 65_535)
}

/// Validates a number in an inclusive range.
pub fn in_range(value: i64, low: i64, high: i64) -> Messages {
    if (low..=high).contains(&value) {
        return Messages::new();
    }
    vec![format!("must be between {low} and {high}, inclusive").into()]
}

/// Validates the name of an HTTP header.
pub fn http_header_name(value: &str) -> Messages {
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Messages::new();
    }
    let message = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![regex_error(message, "[-A-Za-z0-9]+", &["X-Header-Name"]).into()]
}

/// Validates an integer percentage, such as `25%`.
pub fn percent(value: &str) -> Messages {
    let digits = value.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Messages::new();
    }
    let message = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_error(message, "[0-9]+%", &["1%", "93%"]).into()]
}

/// Validates an integer without leading zeros, such as a resource version.
pub fn decimal_integer(value: &str) -> Messages {
    if value.is_empty() {
        return vec![EMPTY.into()];
    }
    let digits = value.strip_prefix('-').unwrap_or(value);
    let canonical = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    if value == "0" || (canonical && !digits.is_empty()) {
        return Messages::new();
    }
    vec!["must be a valid decimal integer in canonical form".into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_environment_variable_name_is_rejected() {
        assert!(env_var_name("my.env-name_1").is_empty());
        assert_eq!(
            env_var_name("1a"),
            [
                "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')"
            ]
        );
        assert_eq!(env_var_name(".."), ["must not be '..'"]);
        assert_eq!(env_var_name("..a"), ["must not start with '..'"]);
        assert!(relaxed_env_var_name("1 a:b").is_empty());
        assert_eq!(relaxed_env_var_name("a=b").len(), 1);
        assert_eq!(relaxed_env_var_name(""), ["environment variable name must be non-empty"]);
    }

    #[test]
    fn invalid_port_is_rejected() {
        assert!(port_name("http-2").is_empty());
        assert_eq!(
            port_name(""),
            [
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "must contain at least one letter (a-z)"
            ]
        );
        assert_eq!(
            port_name("-1--2-345678901-"),
            [
                "must be no more than 15 characters",
                "must contain at least one letter (a-z)",
                "must not contain consecutive hyphens",
                "must not begin or end with a hyphen"
            ]
        );
        assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
        assert!(port_number(65_535).is_empty());
    }

    #[test]
    fn invalid_small_value_is_rejected() {
        assert!(percent("0%").is_empty() && !percent("%").is_empty() && !percent("1").is_empty());
        for good in ["0", "1", "-1", "10"] {
            assert!(decimal_integer(good).is_empty(), "{good:?}");
        }
        for bad in ["", "-", "01", "-0", "+1", "1a"] {
            assert!(!decimal_integer(bad).is_empty(), "{bad:?}");
        }
        assert!(config_map_key("a_b.c-d").is_empty() && !config_map_key("").is_empty());
        assert!(c_identifier("_a1").is_empty() && !c_identifier("1a").is_empty());
        assert!(http_header_name("X-A").is_empty() && !http_header_name("X A").is_empty());
    }
}
