//! Plain HTTP beside TLS, on the same port of the loopback interface.
//!
//! Requests over plain HTTP carry no credential and are all authenticated as one user. The peer must therefore be on
//! this machine, and [`super::host`] rejects requests that a web page in a browser could send.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use coracle_base::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::accept::{Accept, Handshake, Peer};
use super::plain_http;
use super::tls::{TlsConnection, TlsListener};
use crate::credential_scope::CredentialScope;
use crate::identity::{self, Identity, PeerCertificate, PeerIdentity};

/// A TLS listener that also accepts plain HTTP.
#[derive(Debug)]
pub struct PlainOrTlsListener {
    listener: TlsListener,
    plain: Peer,
}

impl PlainOrTlsListener {
    /// Accepts plain HTTP beside TLS. Requests over plain HTTP are authenticated as `user` in all clusters.
    pub fn new(listener: TlsListener, user: Identity) -> Self {
        let certificate = PeerCertificate {
            vouched_for: true,
            scope: CredentialScope::AllClusters,
            front_proxy: None,
            not_after: Timestamp::from_millis(u64::MAX),
        };
        let identity = PeerIdentity(Some(Arc::new(identity::authenticated(user))));
        Self { listener, plain: Peer { identity, certificate: Some(certificate), is_plain_http: true } }
    }
}

impl Accept for PlainOrTlsListener {
    type Connection = PlainOrTlsConnection;

    async fn accept(&mut self) -> io::Result<PlainOrTlsConnection> {
        let connection = self.listener.accept().await?;
        Ok(PlainOrTlsConnection { connection, plain: self.plain.clone() })
    }
}

/// A connection that is plain HTTP or TLS, detected by its first byte.
pub struct PlainOrTlsConnection {
    connection: TlsConnection,
    plain: Peer,
}

impl fmt::Debug for PlainOrTlsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainOrTlsConnection").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl Handshake for PlainOrTlsConnection {
    type Stream = PlainOrTls;

    fn peer_address(&self) -> Option<IpAddr> {
        self.connection.peer_address()
    }

    async fn handshake(self) -> io::Result<(PlainOrTls, Peer)> {
        let is_local = self.peer_address().is_some_and(|address| address.to_canonical().is_loopback());
        if is_local && plain_http::is_spoken_on(self.connection.stream()).await? {
            return Ok((PlainOrTls::Plain(self.connection.into_stream()), self.plain));
        }
        let (stream, peer) = self.connection.handshake().await?;
        Ok((PlainOrTls::Tls(Box::new(stream)), peer))
    }
}

/// A stream of either kind.
pub enum PlainOrTls {
    /// Plain HTTP.
    Plain(TcpStream),
    /// TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl fmt::Debug for PlainOrTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Tls(_) => "Tls",
        })
    }
}

impl AsyncRead for PlainOrTls {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for PlainOrTls {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }
}
