//! Validation of extra fields of an impersonated user, which must be unambiguous.

use std::collections::BTreeMap;

use coracle_meta::field::{FieldError, Path};
use coracle_meta::name::dns1123_subdomain;

/// Characters of the path of a key, beside letters and digits.
const PATH_CHARACTERS: &str = "/-._~%!$&'()*+,;=:";

/// Returns the first error, with kube-apiserver's text (`validateExtra` in its `mode.go`).
pub(super) fn problem(extra: &BTreeMap<String, Vec<String>>) -> Option<String> {
    extra.iter().find_map(|(key, values)| {
        if key.is_empty() {
            return Some("impersonating the empty string key in extra is not allowed".to_owned());
        }
        if let Some(error) = not_domain_prefixed(key) {
            return Some(format!("impersonating an invalid key in extra is not allowed: {error}"));
        }
        if key.chars().any(char::is_uppercase) {
            return Some(format!("impersonating a non-lowercase key in extra is not allowed: {key:?}"));
        }
        let is_empty = values.iter().any(String::is_empty);
        is_empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
    })
}

/// Checks that a key has the form `example.com/scopes`.
fn not_domain_prefixed(key: &str) -> Option<FieldError> {
    let extra = Path::root("extra");
    let path = extra.child("key");
    let parts = key.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty());
    let Some((host, rest)) = parts else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return Some(FieldError::invalid(&path, key, detail));
    };
    if let Some(message) = dns1123_subdomain(host).into_iter().next() {
        return Some(FieldError::invalid(&path, host, message));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || PATH_CHARACTERS.contains(c);
    let detail = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
    (!rest.chars().all(fits)).then(|| FieldError::invalid(&path, rest, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_keys_and_values_are_rejected() {
        let problem = |key: &str, value: &str| {
            problem(&BTreeMap::from([(key.to_owned(), vec![value.to_owned()])])).unwrap_or_default()
        };
        assert_eq!(problem("example.com/scopes", "view"), "");
        assert_eq!(
            problem("scopes", "view"),
            "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \"scopes\": must be a \
             domain-prefixed path (such as \"acme.io/foo\")"
        );
        assert!(problem("", "view").contains("empty string key"));
        assert!(problem("Example.com/scopes", "view").contains("lowercase RFC 1123 subdomain"));
        assert!(problem("example.com/Scopes", "view").contains("non-lowercase key"));
        assert!(problem("example.com/a b", "view").contains("Invalid path"));
        assert!(problem("example.com/scopes", "").contains("empty string value"));
    }
}
