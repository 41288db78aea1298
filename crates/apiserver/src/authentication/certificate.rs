//! Authentication by client certificate, and of components of this process, which need none.
//!
//! The TLS handshake (`listen`) has verified the certificate. Here only its expiry is checked, because a connection may
//! outlive the certificate that it was opened with.

use super::authenticator::{Attempt, Authenticated, AuthenticationError, Authenticator, Outcome, Pending};
use crate::credential_scope::CredentialScope;

pub(super) struct CertificateAuthenticator;

impl Authenticator for CertificateAuthenticator {
    fn authenticate<'a>(&'a self, attempt: &'a Attempt<'a>) -> Pending<'a> {
        Box::pin(std::future::ready(judge(attempt)))
    }
}

fn judge(attempt: &Attempt<'_>) -> Outcome {
    if let Some(certificate) = attempt.certificate {
        if !certificate.is_vouched_for() {
            return Err(AuthenticationError::refused("the client certificate is not trusted"));
        }
        if certificate.has_expired(attempt.now) {
            return Err(AuthenticationError::refused("the client certificate has expired"));
        }
        attempt.metrics.note_certificate(certificate.remaining(attempt.now));
    }
    let identity = attempt.peer.and_then(|peer| peer.0.clone());
    Ok(identity.map(|identity| Authenticated { identity, scope: scope(attempt), audiences: Vec::new() }))
}

/// The scope of the credential: that of a component of this process, or the one in the certificate. Other identities
/// are valid in the default cluster.
fn scope(attempt: &Attempt<'_>) -> CredentialScope {
    let of_certificate = || attempt.certificate.map(|certificate| certificate.scope());
    attempt.in_process.or_else(of_certificate).unwrap_or(&CredentialScope::DefaultCluster).clone()
}
