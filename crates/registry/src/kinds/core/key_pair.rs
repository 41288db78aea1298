//! Warnings about unusable certificates and keys in secrets of type `kubernetes.io/tls`, in the words of Go.
//!
//! Only the types of the PEM blocks are checked. Checking that the key belongs to the certificate would require
//! parsing X.509, for a mere warning.

use serde_json::Value;

use crate::kinds::certificates::pem;
use crate::view;

const CERTIFICATE: &str = "CERTIFICATE";
const PRIVATE_KEY: &str = "PRIVATE KEY";

/// Returns a warning if the certificate or else the key is unusable.
pub(super) fn warning(secret: &Value) -> Option<String> {
    let labels = |key: &str| -> Vec<String> {
        let blocks = pem::blocks(view::text(secret, &["data", key]));
        blocks.into_iter().map(|block| block.label).collect()
    };
    of_certificate(&labels("tls.crt")).or_else(|| of_key(&labels("tls.key")))
}

fn of_certificate(labels: &[String]) -> Option<String> {
    match labels {
        [] => Some("tls: failed to find any PEM data in certificate input".to_owned()),
        labels if labels.iter().any(|label| label == CERTIFICATE) => None,
        [key] if key.ends_with(PRIVATE_KEY) => Some(
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; \
             PEM inputs may have been switched"
                .to_owned(),
        ),
        others => Some(format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
             following types: [{}]",
            others.join(" ")
        )),
    }
}

fn of_key(labels: &[String]) -> Option<String> {
    let is_key = |label: &String| label == PRIVATE_KEY || label.ends_with(" PRIVATE KEY");
    match labels {
        [] => Some("tls: failed to find any PEM data in key input".to_owned()),
        labels if labels.iter().any(is_key) => None,
        [certificate] if certificate == CERTIFICATE => {
            Some("tls: found a certificate rather than a key in the PEM for the private key".to_owned())
        }
        others => Some(format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM \
             blocks of the following types: [{}]",
            others.join(" ")
        )),
    }
}
