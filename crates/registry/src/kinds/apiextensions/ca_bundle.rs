//! CA bundle of a conversion webhook.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::Value;

use crate::kinds::certificates::pem;
use crate::view;

/// Rejects a bundle without certificates.
pub(super) fn check(config: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let bundle = view::text(config, &["caBundle"]);
    if let Some(problem) = problem(bundle) {
        let detail = format!("unable to load root certificates: {problem}");
        errors.push(FieldError::invalid(&path.child("caBundle"), BadValue::json(&bundle.into()), detail));
    }
}

/// Whether the bundle is empty or valid.
pub(super) fn is_valid_or_none(config: &Value) -> bool {
    problem(view::text(config, &["caBundle"])).is_none()
}

/// A single certificate is enough.
fn problem(bundle: &str) -> Option<&'static str> {
    let blocks = pem::blocks(bundle);
    let mut certificates =
        blocks.iter().filter(|block| block.label == "CERTIFICATE" && !block.has_headers).peekable();
    if bundle.is_empty() {
        None
    } else if blocks.is_empty() {
        Some("unable to parse bytes as PEM block")
    } else if certificates.peek().is_none() {
        Some("no valid certificate authority data seen")
    } else if certificates.any(pem::Block::is_sequence) {
        None
    } else {
        Some("failed to parse certificate: x509: malformed certificate")
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    fn faults(bundle: &str) -> Vec<String> {
        let mut errors = ErrorList::new();
        check(&json!({"caBundle": STANDARD.encode(bundle)}), &Path::root("c"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ca_bundle_needs_a_certificate() {
        assert!(faults("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n").is_empty());
        assert!(faults("").is_empty());
        let expected = "c.caBundle: Invalid value: \"bm9uZQ==\": unable to load root certificates: unable to \
                        parse bytes as PEM block";
        assert_eq!(faults("none"), [expected]);
    }
}
