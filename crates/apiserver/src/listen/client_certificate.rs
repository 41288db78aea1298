//! Client certificates: any is let through the handshake, and only then judged.
//!
//! Upstream does the same, so that whoever shows a certificate of another authority, or one that has
//! expired, is told so in an answer. The handshake still makes sure that the client has the key of what
//! it shows; nothing else is believed of it before [`ClientAuthority::vouches_for`] has said yes.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::authorities::Authorities;

/// Who signs the certificates of clients, and of front proxies.
#[derive(Debug)]
pub(super) struct ClientAuthority {
    clients: Authorities,
    proxies: Option<Authorities>,
    provider: Arc<CryptoProvider>,
    /// The names of all of them: some clients show only what one of these has signed.
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

    /// Whether a chain, the client's own certificate first, was signed by one of ours for clients, and is
    /// valid now.
    pub(super) fn vouches_for(&self, chain: &[CertificateDer<'_>]) -> bool {
        self.clients.vouch_for(chain)
    }

    /// The same for front proxies.
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

    /// Says nothing about the client: that is asked after the handshake.
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
