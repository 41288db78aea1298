//! Verifies client certificates after the handshake, which accepts any certificate.
//!
//! kube-apiserver does the same, so that a client with a certificate of another CA, or with an expired one, gets an
//! HTTP response with the reason. The handshake verifies that the client has the private key of its certificate; its
//! other claims are used only if [`ClientAuthority::vouches_for`] returns true.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::authorities::Authorities;

/// The CAs of client certificates and of front proxies.
#[derive(Debug)]
pub(super) struct ClientAuthority {
    clients: Authorities,
    proxies: Option<Authorities>,
    provider: Arc<CryptoProvider>,
    /// Names of all CAs, sent to clients: some present only a certificate that one of these CAs has signed.
    hints: Vec<DistinguishedName>,
}

impl ClientAuthority {
    pub(super) fn new(
        clients: Authorities,
        proxies: Option<Authorities>,
        provider: &Arc<CryptoProvider>,
    ) -> Self {
        let both = [Some(&clients), proxies.as_ref()].into_iter().flatten();
        let hints = both.flat_map(Authorities::names).cloned().collect();
        Self { clients, proxies, provider: provider.clone(), hints }
    }

    /// Returns true if a CA of clients has signed the chain, which begins with the client's own certificate, and the
    /// chain is valid now.
    pub(super) fn vouches_for(&self, chain: &[CertificateDer<'_>]) -> bool {
        self.clients.vouch_for(chain)
    }

    /// Like [`Self::vouches_for`], with the CAs of front proxies.
    pub(super) fn vouches_for_proxy(&self, chain: &[CertificateDer<'_>]) -> bool {
        self.proxies.as_ref().is_some_and(|proxies| proxies.vouch_for(chain))
    }
}

impl ClientCertVerifier for ClientAuthority {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    /// Accepts any certificate, which is verified after the handshake.
    fn verify_client_cert(
        &self,
        _own: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, own, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, own, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
