//! TLS 1.2 and 1.3 with optional client certificates.
//!
//! A client without a certificate may connect, as in kube-apiserver, since its requests may carry another credential. A
//! client whose certificate cannot be verified has no identity, whatever its certificate claims.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::ServerConfig;
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::server::TlsStream;

use super::accept::{Accept, Handshake, Peer};
use super::authorities::Authorities;
use super::client_certificate::ClientAuthority;
use super::plain_http;
use crate::credential_scope::CredentialScope;
use crate::identity::{self, PeerCertificate, PeerIdentity};

/// Protocols for ALPN in order of preference.
const PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// Error of certificates, keys and CA bundles. Never contains a private key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// No certificate, or not in PEM.
    #[error("not a certificate in PEM")]
    Certificate(#[source] pem::Error),
    /// No private key, or not in PEM.
    #[error("not a private key in PEM")]
    Key(#[source] pem::Error),
    /// Certificate and key do not match, or their type is not supported.
    #[error("certificate and key do not match or cannot be used")]
    Pair(#[source] rustls::Error),
    /// The CA bundle has no usable certificate.
    #[error("the CA bundle of client certificates cannot be used")]
    ClientCa(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The serving certificate chain with its private key.
#[derive(Clone)]
pub struct ServerCertificate(Arc<CertifiedKey>);

impl ServerCertificate {
    /// Parses a chain, which begins with the serving certificate, and the private key of that certificate.
    ///
    /// # Errors
    /// If either is not PEM or they do not match.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = certificates(chain).map_err(TlsError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
        let pair = CertifiedKey::from_der(chain, key, &provider()).map_err(TlsError::Pair)?;
        Ok(Self(Arc::new(pair)))
    }
}

impl fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerCertificate").finish_non_exhaustive()
    }
}

/// The TLS configuration of a server. Clones share it, and see its replacement.
#[derive(Clone)]
pub struct Tls(Arc<ArcSwap<Terms>>);

impl Tls {
    /// Serves `certificate`, and authenticates clients whose certificates one of the CAs in `client_ca` (PEM) has
    /// signed.
    ///
    /// # Errors
    /// If `client_ca` has no usable CA.
    pub fn new(client_ca: &[u8], certificate: ServerCertificate) -> Result<Self, TlsError> {
        Self::with_front_proxy(client_ca, None, certificate)
    }

    /// Like [`Tls::new`], and authenticates front proxies whose certificates one of the CAs in `proxy_ca` (PEM) has
    /// signed.
    ///
    /// # Errors
    /// If `client_ca` or `proxy_ca` has no usable CA.
    pub fn with_front_proxy(
        client_ca: &[u8],
        proxy_ca: Option<&[u8]>,
        certificate: ServerCertificate,
    ) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(ArcSwap::from_pointee(Terms::new(client_ca, proxy_ca, certificate)?))))
    }

    /// Replaces the serving certificate and the CAs of clients and front proxies, from the next handshake on. Open
    /// connections keep their configuration.
    ///
    /// # Errors
    /// If `client_ca` or `proxy_ca` has no usable CA; then the configuration does not change.
    pub fn replace(
        &self,
        client_ca: &[u8],
        proxy_ca: Option<&[u8]>,
        certificate: ServerCertificate,
    ) -> Result<(), TlsError> {
        self.0.store(Arc::new(Terms::new(client_ca, proxy_ca, certificate)?));
        Ok(())
    }

    /// Returns a listener that performs TLS handshakes on the connections of `listener`.
    pub fn listener(&self, listener: TcpListener) -> TlsListener {
        TlsListener { listener, tls: self.clone() }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// The configuration of a handshake. It is replaced as a whole, so that a client certificate is verified by the CAs
/// that were sent to the client, and no TLS session resumes under a replaced configuration.
struct Terms {
    config: Arc<ServerConfig>,
    clients: Arc<ClientAuthority>,
}

impl Terms {
    fn new(
        client_ca: &[u8],
        proxy_ca: Option<&[u8]>,
        certificate: ServerCertificate,
    ) -> Result<Self, TlsError> {
        let provider = provider();
        let authorities = |ca| Authorities::new(certificates(ca).map_err(TlsError::Certificate)?, &provider);
        let proxies = proxy_ca.map(authorities).transpose()?;
        let clients = Arc::new(ClientAuthority::new(authorities(client_ca)?, proxies, &provider));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Pair)?
            .with_client_cert_verifier(clients.clone())
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::clone(&certificate.0))));
        config.alpn_protocols = PROTOCOLS.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Self { config: Arc::new(config), clients })
    }
}

/// A TCP listener whose connections use TLS.
pub struct TlsListener {
    listener: TcpListener,
    tls: Tls,
}

impl fmt::Debug for TlsListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsListener").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Accept for TlsListener {
    type Connection = TlsConnection;

    async fn accept(&mut self) -> io::Result<TlsConnection> {
        let stream = Accept::accept(&mut self.listener).await?;
        Ok(TlsConnection { stream, terms: self.tls.0.load_full() })
    }
}

/// An accepted TCP connection before its TLS handshake.
pub struct TlsConnection {
    stream: TcpStream,
    terms: Arc<Terms>,
}

impl fmt::Debug for TlsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConnection").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl TlsConnection {
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }
}

impl Handshake for TlsConnection {
    type Stream = TlsStream<TcpStream>;

    fn peer_address(&self) -> Option<IpAddr> {
        self.stream.peer_addr().ok().map(|address| address.ip())
    }

    async fn handshake(self) -> io::Result<(Self::Stream, Peer)> {
        if plain_http::is_spoken_on(&self.stream).await? {
            return Err(plain_http::refuse(self.stream).await);
        }
        let stream = TlsAcceptor::from(self.terms.config.clone()).accept(self.stream).await?;
        // Verified for resumed sessions too: the certificate may have expired since the first handshake.
        let peer = match stream.get_ref().1.peer_certificates() {
            Some(chain) if !chain.is_empty() => peer(&self.terms.clients, chain),
            _ => Peer::default(),
        };
        Ok((stream, peer))
    }
}

/// Returns the peer that presents a certificate chain, which begins with its own certificate.
fn peer(clients: &ClientAuthority, chain: &[CertificateDer<'_>]) -> Peer {
    let scope = chain.first().map(|own| CredentialScope::of_certificate_der(own));
    let scope = scope.and_then(Result::ok);
    let vouched_for = scope.is_some() && clients.vouches_for(chain);
    let read = chain.first().filter(|_| vouched_for).and_then(|own| identity::from_certificate(own));
    let ends = chain.iter().map(|certificate| identity::name_and_end(certificate));
    let ends: Vec<_> = ends.map(Option::unwrap_or_default).collect();
    let proxy =
        ends.first().filter(|_| clients.vouches_for_proxy(chain)).map(|(name, _)| name.as_str().into());
    let certificate = PeerCertificate {
        vouched_for,
        scope: scope.unwrap_or(CredentialScope::DefaultCluster),
        front_proxy: proxy,
        // A chain expires with the first of its certificates to expire.
        not_after: ends.iter().map(|(_, end)| *end).min().unwrap_or_default(),
    };
    let identity = read.map(identity::authenticated).map(Arc::new);
    Peer { identity: PeerIdentity(identity), certificate: Some(certificate), is_plain_http: false }
}

/// The crypto provider, passed explicitly: the process may contain others and install its own default.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Parses all certificates in PEM; at least one.
fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>()?;
    if found.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(found) }
}
