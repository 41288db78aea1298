//! Encryption: TLS 1.2 and 1.3, with client certificates for those who have one.
//!
//! A client without a certificate is let in, as upstream does, for who it is may still show in
//! its requests. One whose certificate proves nothing is nobody, whatever it says.

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

/// What may be agreed on, the better one first.
const PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// Why certificates cannot be served with. Never says what a key is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// No certificate, or not in PEM.
    #[error("not a certificate in PEM")]
    Certificate(#[source] pem::Error),
    /// No private key, or not in PEM.
    #[error("not a private key in PEM")]
    Key(#[source] pem::Error),
    /// They do not go together, or are of a kind that is not supported.
    #[error("certificate and key do not match or cannot be used")]
    Pair(#[source] rustls::Error),
    /// Nothing can be verified with it.
    #[error("the CA bundle of client certificates cannot be used")]
    ClientCa(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The certificate a server shows, with its private key.
#[derive(Clone)]
pub struct ServerCertificate(Arc<CertifiedKey>);

impl ServerCertificate {
    /// Reads a chain, the server's own certificate first, and the private key of that one.
    ///
    /// # Errors
    /// If either is not PEM or they do not belong together.
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

/// How a server encrypts. Clones share it, and what it is replaced by.
#[derive(Clone)]
pub struct Tls(Arc<ArcSwap<Terms>>);

impl Tls {
    /// Shows `certificate`, and knows the clients whose certificates one of the authorities in
    /// `client_ca` (PEM) has signed.
    ///
    /// # Errors
    /// If nothing can be verified with `client_ca`.
    pub fn new(client_ca: &[u8], certificate: ServerCertificate) -> Result<Self, TlsError> {
        Self::with_front_proxy(client_ca, None, certificate)
    }

    /// The same, and knows the front proxies whose certificates one of the authorities in `proxy_ca` (PEM)
    /// has signed.
    ///
    /// # Errors
    /// If nothing can be verified with `client_ca` or `proxy_ca`.
    pub fn with_front_proxy(
        client_ca: &[u8],
        proxy_ca: Option<&[u8]>,
        certificate: ServerCertificate,
    ) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(ArcSwap::from_pointee(Terms::new(client_ca, proxy_ca, certificate)?))))
    }

    /// Shows another certificate and knows the clients and proxies of other authorities, from the next
    /// handshake on. Connections that are open go on as they are.
    ///
    /// # Errors
    /// If nothing can be verified with `client_ca` or `proxy_ca`; then everything stays as it was.
    pub fn replace(
        &self,
        client_ca: &[u8],
        proxy_ca: Option<&[u8]>,
        certificate: ServerCertificate,
    ) -> Result<(), TlsError> {
        self.0.store(Arc::new(Terms::new(client_ca, proxy_ca, certificate)?));
        Ok(())
    }

    /// The connections of `listener`, encrypted.
    pub fn listener(&self, listener: TcpListener) -> TlsListener {
        TlsListener { listener, tls: self.clone() }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// What a handshake goes by. Replaced as a whole, so that the authorities a client is told of are those
/// its certificate is judged by, and no session goes on under terms that are gone.
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

/// A socket whose connections are encrypted.
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

/// A connection that is to be encrypted.
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
        // Also of a session that goes on: the certificate may have expired since it began.
        let peer = match stream.get_ref().1.peer_certificates() {
            Some(chain) if !chain.is_empty() => peer(&self.terms.clients, chain),
            _ => Peer::default(),
        };
        Ok((stream, peer))
    }
}

/// Who shows a chain of certificates, its own first.
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
        // A chain ends with the first of its certificates.
        not_after: ends.iter().map(|(_, end)| *end).min().unwrap_or_default(),
    };
    let identity = read.map(identity::authenticated).map(Arc::new);
    Peer { identity: PeerIdentity(identity), certificate: Some(certificate), is_plain_http: false }
}

/// Named wherever it is needed: a process may hold others, and a default of its own.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// All of them, at least one.
fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>()?;
    if found.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(found) }
}
