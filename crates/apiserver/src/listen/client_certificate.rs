//! Client certificates: any is let through the handshake, and only then judged.
//!
//! Upstream does the same, so that whoever shows a certificate of another authority, or one that has
//! expired, is told so in an answer. The handshake still makes sure that the client has the key of what
//! it shows; nothing else is believed of it before [`ClientAuthority::vouches_for`] has said yes.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

/// Who signs the certificates of clients, and of front proxies.
#[derive(Debug)]
pub(super) struct ClientAuthority {
    clients: Arc<dyn ClientCertVerifier>,
    proxies: Option<Arc<dyn ClientCertVerifier>>,
    /// The names of all of them: some clients show only what one of these has signed.
    hints: Vec<DistinguishedName>,
}

impl ClientAuthority {
    pub(super) fn new(
        clients: Arc<RootCertStore>,
        proxies: Option<Arc<RootCertStore>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let verifier = |roots| {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
            verifier.allow_unauthenticated().build()
        };
        let clients = verifier(clients)?;
        let proxies = proxies.map(verifier).transpose()?;
        let both = [Some(&clients), proxies.as_ref()].into_iter().flatten();
        let hints = both.flat_map(|verifier| verifier.root_hint_subjects()).cloned().collect();
        Ok(Self { clients, proxies, hints })
    }

    /// Whether a chain, the client's own certificate first, was signed by one of ours for clients, and is
    /// valid now.
    pub(super) fn vouches_for(&self, chain: &[CertificateDer<'_>]) -> bool {
        is_verified(&*self.clients, chain)
    }

    /// The same for front proxies.
    pub(super) fn vouches_for_proxy(&self, chain: &[CertificateDer<'_>]) -> bool {
        self.proxies.as_deref().is_some_and(|proxies| is_verified(proxies, chain))
    }
}

fn is_verified(verifier: &dyn ClientCertVerifier, chain: &[CertificateDer<'_>]) -> bool {
    let Some((own, intermediates)) = chain.split_first() else { return false };
    verifier.verify_client_cert(own, intermediates, UnixTime::now()).is_ok()
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
        self.clients.verify_tls12_signature(message, own, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.clients.verify_tls13_signature(message, own, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.clients.supported_verify_schemes()
    }
}
