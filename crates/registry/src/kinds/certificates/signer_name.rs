//! Signer names: a domain, a slash and a path.

use coracle_meta::field::{ErrorList, FieldError, Path, quoted};
use coracle_meta::name::{
    DNS1123_LABEL_MAX_LENGTH, DNS1123_SUBDOMAIN_MAX_LENGTH, Messages, dns1123_label, dns1123_subdomain,
};

use crate::kinds::rules;

/// Maximum length: a domain, a slash, and a path with room for a label and a subdomain.
const MAX_LENGTH: usize = 2 * DNS1123_SUBDOMAIN_MAX_LENGTH + DNS1123_LABEL_MAX_LENGTH + 2;

/// Validates a signer name.
pub(super) fn check(path: &Path<'_>, name: &str, errors: &mut ErrorList) {
    if !rules::required(path, name, errors) {
        return;
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid(path, name, detail));
        return;
    };
    if domain.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        errors.push(FieldError::too_long(path, DNS1123_SUBDOMAIN_MAX_LENGTH));
    }
    check_labels(path, domain, dns1123_label, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(path, domain, detail));
    }
    check_labels(path, rest, dns1123_subdomain, errors);
    if name.len() > MAX_LENGTH {
        errors.push(FieldError::too_long(path, MAX_LENGTH));
    }
}

/// Reports only the first invalid label.
fn check_labels(path: &Path<'_>, segment: &str, rule: fn(&str) -> Messages, errors: &mut ErrorList) {
    let wrong =
        segment.split('.').map(|label| (label, rule(label))).find(|(_, messages)| !messages.is_empty());
    for (label, message) in wrong
        .into_iter()
        .flat_map(|(label, messages)| messages.into_iter().map(move |message| (label, message)))
    {
        let detail = format!("validating label {}: {message}", quoted(label));
        errors.push(FieldError::invalid(path, segment, detail));
    }
}
