//! Metrics of issued certificates: how many were issued for requests with `expirationSeconds`, and how many of them
//! have that lifetime (`pkg/registry/certificates/certificates/storage/metrics.go` of kube-apiserver).

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use coracle_registry::lifecycle::Updated;
use coracle_registry::view;
use serde_json::Value;
use x509_parser::pem::parse_x509_pem;

use super::ResourceRequest;
use crate::metrics::ServerMetrics;
use crate::status::Refusal;

/// How far signers may backdate the beginning of a short-lived certificate.
const BACKDATING: Duration = Duration::from_secs(5 * 60);

/// A write to the status of a CertificateSigningRequest that has no certificate yet.
pub(super) struct Issuance;

impl Issuance {
    /// Returns `None` for any other write.
    pub(super) async fn begin(request: &ResourceRequest) -> Result<Option<Self>, Refusal> {
        let declaration = request.kind.declaration();
        if declaration.group != "certificates.k8s.io"
            || declaration.plural != "certificatesigningrequests"
            || request.path.subresource != "status"
        {
            return Ok(None);
        }
        let stored = request.cluster.find(&*request.kind, "", &request.path.name).await?;
        Ok(stored.filter(|stored| certificate(stored).is_empty()).map(|_| Self))
    }

    /// Counts the certificate if the write has added one.
    pub(super) fn end(self, updated: &Updated, metrics: &ServerMetrics) {
        let Ok(object) = serde_json::from_slice::<Value>(&updated.object.json) else { return };
        let format = view::integer(&object, &["spec", "expirationSeconds"]);
        let format = format.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        let certificate = certificate(&object);
        if let Some(format) = format.filter(|_| !certificate.is_empty()) {
            let lifetime = BASE64_STANDARD.decode(certificate).ok().and_then(|pem| lifetime(&pem));
            let is_honored = lifetime.is_some_and(|lifetime| is_honored(format, lifetime));
            metrics.note_issued(view::text(&object, &["spec", "signerName"]), is_honored);
        }
    }
}

fn certificate(request: &Value) -> &str {
    view::text(request, &["status", "certificate"])
}

/// Returns the lifetime of the first certificate of a chain: the time from `notBefore` to `notAfter`.
fn lifetime(pem: &[u8]) -> Option<Duration> {
    let (_, pem) = parse_x509_pem(pem).ok()?;
    let certificate = pem.parse_x509().ok()?;
    let validity = certificate.validity();
    let seconds = validity.not_after.timestamp() - validity.not_before.timestamp();
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

/// Whether a lifetime is the requested one, with a tolerance of five percent and the backdating.
fn is_honored(format: Duration, lifetime: Duration) -> bool {
    format.abs_diff(lifetime) < BACKDATING + format / 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetime_near_the_requested_duration_is_honored() {
        let hours = |count: u64| Duration::from_secs(count * 3600);
        for (format, lifetime, expected) in [
            (hours(24), hours(24), true),
            (hours(24), hours(25), true),
            (hours(24), hours(26), false),
            (hours(1), hours(1) - BACKDATING, true),
            (hours(1), hours(24), false),
        ] {
            assert_eq!(is_honored(format, lifetime), expected, "{format:?} {lifetime:?}");
        }
        assert_eq!(lifetime(b"no certificate"), None);
    }
}
