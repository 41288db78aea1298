//! Names of pools, devices, attributes and shares.

use coracle_meta::field::{ErrorList, FieldError, Path, quoted};
use coracle_meta::name;

use crate::kinds::rules;
use crate::kinds::storage::driver_name;

/// Maximum length of an attribute's name within its domain, as in kube-apiserver.
const ID_MAX_LENGTH: usize = 32;

/// Validates a DNS label; an empty one is invalid.
pub(super) fn label(path: &Path<'_>, value: &str, errors: &mut ErrorList) {
    rules::each_message(path, value, name::dns1123_label(value), errors);
}

/// Validates the name of a label.
pub(super) fn label_name(path: &Path<'_>, value: &str, errors: &mut ErrorList) {
    rules::each_message(path, value, name::qualified_name(value), errors);
}

/// Validates DNS subdomains that are separated by slashes.
pub(super) fn pool_name(path: &Path<'_>, pool: &str, errors: &mut ErrorList) {
    if !rules::required(path, pool, errors) {
        return;
    }
    if pool.len() > name::DNS1123_SUBDOMAIN_MAX_LENGTH {
        errors.push(FieldError::too_long(path, name::DNS1123_SUBDOMAIN_MAX_LENGTH));
    }
    for part in pool.split('/') {
        rules::each_message(path, part, name::dns1123_subdomain(part), errors);
    }
}

/// Validates an identifier with an optional domain before a slash, by default that of the driver. kube-apiserver
/// accepts more than one slash.
pub(super) fn qualified_name(path: &Path<'_>, value: &str, errors: &mut ErrorList) {
    match value.split('/').collect::<Vec<_>>().as_slice() {
        [id] => identifier(path, id, errors),
        [domain, id] => {
            if domain.is_empty() {
                errors.push(FieldError::invalid(path, "", "the domain must not be empty"));
            } else {
                driver_name(path, domain, errors);
            }
            if id.is_empty() {
                errors.push(FieldError::invalid(path, "", "the name must not be empty"));
            } else {
                identifier(path, id, errors);
            }
        }
        _ => {}
    }
}

/// Validates an identifier with a domain.
pub(super) fn fully_qualified_name(path: &Path<'_>, value: &str, errors: &mut ErrorList) {
    qualified_name(path, value, errors);
    if !value.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(FieldError::invalid(path, value, detail));
    }
}

fn identifier(path: &Path<'_>, id: &str, errors: &mut ErrorList) {
    if id.len() > ID_MAX_LENGTH {
        errors.push(FieldError::too_long(path, ID_MAX_LENGTH));
    }
    rules::each_message(path, id, name::c_identifier(id), errors);
}

/// Returns why a text is not a UUID in any of the accepted forms: the canonical one, the same after `urn:uuid:` or in
/// braces, and without dashes.
fn uuid_fault(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let are_digits = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_hexdigit);
    let usual = match bytes.len() {
        36 => bytes,
        45 if bytes[..9].eq_ignore_ascii_case(b"urn:uuid:") => &bytes[9..],
        45 => return Some(format!("invalid urn prefix: {}", quoted(&String::from_utf8_lossy(&bytes[..9])))),
        38 if bytes[0] == b'{' && bytes[37] == b'}' => &bytes[1..37],
        38 => return Some("invalid bracketed UUID format".to_owned()),
        32 => return (!are_digits(bytes)).then(|| "invalid UUID format".to_owned()),
        length => return Some(format!("invalid UUID length: {length}")),
    };
    let is_valid = usual.iter().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    (!is_valid).then(|| "invalid UUID format".to_owned())
}

/// Requires a UUID in canonical form.
pub(super) fn uid(path: &Path<'_>, uid: &str, errors: &mut ErrorList) {
    if let Some(fault) = uuid_fault(uid) {
        errors.push(FieldError::invalid(path, uid, format!("error validating uid: {fault}")));
        return;
    }
    let dashes = [8, 13, 18, 23];
    let canonical = uid.len() == 36
        && uid.bytes().enumerate().all(|(index, byte)| {
            if dashes.contains(&index) {
                byte == b'-'
            } else {
                byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
            }
        });
    if canonical {
        return;
    }
    if let Some(reason) = uuid_fault(uid) {
        errors.push(FieldError::invalid(path, uid, format!("error validating uid: {reason}")));
    } else {
        let detail = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with \
                      lowercase hexadecimal characters";
        errors.push(FieldError::invalid(path, uid, detail));
    }
}

/// Returns true for a version as defined by semver.org.
pub(super) fn is_semantic_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, pre) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
    let number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let pre_release =
        |part: &str| word(part) && (number(part) || part.bytes().any(|byte| !byte.is_ascii_digit()));
    core.split('.').count() == 3
        && core.split('.').all(number)
        && pre.is_none_or(|pre| pre.split('.').all(pre_release))
        && build.is_none_or(|build| build.split('.').all(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semantic_versions_follow_semver() {
        for version in ["1.2.3", "0.0.0-alpha.1+build.007", "1.0.0--"] {
            assert!(is_semantic_version(version), "{version}");
        }
        for version in ["1.2", "01.2.3", "1.2.3-01", "1.2.3-", "1.2.3+", "v1.2.3"] {
            assert!(!is_semantic_version(version), "{version}");
        }
    }

    #[test]
    fn fully_qualified_name_must_have_a_domain() {
        let count = |value: &str| {
            let mut errors = ErrorList::default();
            fully_qualified_name(&Path::root("n"), value, &mut errors);
            errors.len()
        };
        assert_eq!(count("example.com/model"), 0);
        assert_eq!(count("model"), 1);
        assert_eq!(count("/model"), 1);
        assert_eq!(count("example.com/1"), 1);
    }

    #[test]
    fn uids_are_rejected_with_the_reason_of_the_parser() {
        let print = |text: &str| {
            let mut errors = ErrorList::new();
            uid(&Path::root("u"), text, &mut errors);
            errors.to_string()
        };
        assert_eq!(print("0f54c2a6-2b4a-4d3a-9f3b-1a2b3c4d5e6f"), "");
        assert_eq!(print("1"), r#"u: Invalid value: "1": error validating uid: invalid UUID length: 1"#);
        assert!(print("0f54c2a6x2b4a-4d3a-9f3b-1a2b3c4d5e6f").ends_with("uid: invalid UUID format"));
        assert!(print("0F54C2A6-2B4A-4D3A-9F3B-1A2B3C4D5E6F").contains("RFC 4122 normalized form"));
        assert!(print("{0f54c2a6-2b4a-4d3a-9f3b-1a2b3c4d5e6f}").contains("RFC 4122 normalized form"));
    }
}
