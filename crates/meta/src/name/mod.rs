//! Validation of names, keys and small values, with kube-apiserver's messages.
//!
//! A rule is a function from a value to [`Messages`], which are empty for a valid value. Rules work
//! on bytes and allocate only for invalid values.

mod dns;
mod generate;
mod identifier;
mod ip;
mod qualified;

use std::borrow::Cow;

use crate::field::Path;

pub use dns::{
    DNS1123_LABEL_MAX_LENGTH, DNS1123_SUBDOMAIN_MAX_LENGTH, dns1035_label, dns1123_label, dns1123_subdomain,
    dns1123_subdomain_caseless, dns1123_subdomain_with_underscore, wildcard_dns1123_subdomain,
};
pub use generate::{ALPHABET, GENERATED_SUFFIX_LENGTH, generate_name};
pub use identifier::{
    c_identifier, config_map_key, decimal_integer, env_var_name, http_header_name, in_range, percent,
    port_name, port_number, relaxed_env_var_name,
};
pub use ip::{
    cidr, cidr_in_old_field, cidr_warnings, interface_address, ip, ip_in_old_field, ip_warnings,
    parse_cidr_sloppy, parse_ip_sloppy,
};
pub use qualified::{
    LABEL_VALUE_MAX_LENGTH, label_value, path_segment_name, path_segment_prefix, qualified_name,
};

/// The messages of a violated rule; empty for a valid value.
pub type Messages = Vec<Cow<'static, str>>;

/// The rule for the names of a kind. If `prefix` is true, the value is a `generateName`, to which
/// random characters will be appended.
pub type NameRule = fn(value: &str, prefix: bool) -> Messages;

/// The [`NameRule`] of most kinds: a DNS subdomain.
pub fn object_dns_subdomain(value: &str, prefix: bool) -> Messages {
    dns1123_subdomain(&completed(value, prefix))
}

/// The [`NameRule`] of kinds with the format `k8s-long-name`: a DNS subdomain, whose length is
/// counted in bytes. A `generateName` is not checked.
pub fn object_long_name(value: &str, prefix: bool) -> Messages {
    if prefix { Messages::new() } else { dns::dns1123_subdomain_of_key(value) }
}

/// The [`NameRule`] of namespaces and some other kinds: a DNS label.
pub fn object_dns_label(value: &str, prefix: bool) -> Messages {
    dns1123_label(&completed(value, prefix))
}

/// The [`NameRule`] of services: a DNS label that starts with a letter.
pub fn object_dns1035_label(value: &str, prefix: bool) -> Messages {
    dns1035_label(&completed(value, prefix))
}

/// The [`NameRule`] common to all kinds: the name must be a valid segment of a URL path.
pub fn object_path_segment(value: &str, prefix: bool) -> Messages {
    if prefix { path_segment_prefix(value) } else { path_segment_name(value) }
}

/// The [`NameRule`] of IPAddress: an IP address in canonical form. A `generateName` is not checked.
pub fn object_ip_address(value: &str, _prefix: bool) -> Messages {
    ip(&Path::NIL, value).into_iter().map(|error| error.detail.into()).collect()
}

/// Completes a `generateName`, which may end with a dash because characters follow. Like
/// kube-apiserver, replaces the dash and the character before it with a letter.
fn completed(value: &str, prefix: bool) -> Cow<'_, str> {
    match value.strip_suffix('-') {
        Some(stem) if prefix && !stem.is_empty() => {
            let mut name = stem.to_owned();
            name.pop();
            name.push('a');
            Cow::Owned(name)
        }
        _ => Cow::Borrowed(value),
    }
}

/// The older of kube-apiserver's two messages for a value with too many bytes.
fn max_length_characters(length: usize) -> Cow<'static, str> {
    format!("must be no more than {length} characters").into()
}

/// The newer of kube-apiserver's two messages for a value with too many bytes.
fn max_length_bytes(length: usize) -> Cow<'static, str> {
    format!("must be no more than {length} bytes").into()
}

const EMPTY: &str = "must be non-empty";

/// The message for a value that does not match a regular expression.
fn regex_error(message: &str, regex: &str, examples: &[&str]) -> String {
    let mut text = format!("{message} (");
    for (index, example) in examples.iter().enumerate() {
        text.push_str(if index == 0 { "e.g. " } else { " or " });
        text.push_str(&format!("'{example}', "));
    }
    text.push_str(&format!("regex used for validation is '{regex}')"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_name_is_limited_in_bytes_and_accepts_any_prefix() {
        assert!(object_long_name(&"a".repeat(254), false).contains(&"must be no more than 253 bytes".into()));
        assert!(object_long_name("A", true).is_empty());
        assert!(!object_long_name("A", false).is_empty());
    }

    #[test]
    fn generate_name_ending_with_dash_is_accepted() {
        assert!(object_dns_label("web-", true).is_empty());
        assert!(!object_dns_label("web-", false).is_empty());
        assert!(!object_dns_label("-", true).is_empty());
        assert!(object_dns1035_label("a-", true).is_empty());
        assert!(object_dns_subdomain("a.b-", true).is_empty());
        assert!(object_path_segment("..", true).is_empty());
        assert_eq!(object_path_segment("..", false), ["may not be '..'"]);
    }

    #[test]
    fn regex_error_without_examples_omits_them() {
        assert_eq!(regex_error("no", "x+", &[]), "no (regex used for validation is 'x+')");
        assert_eq!(
            regex_error("no", "x+", &["a", "b"]),
            "no (e.g. 'a',  or 'b', regex used for validation is 'x+')"
        );
    }
}
