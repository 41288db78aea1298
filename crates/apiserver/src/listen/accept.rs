//! Where connections come from.
//!
//! Accepting and greeting are two steps: a client that dawdles over its handshake may hold up
//! its own connection, but not the next one.

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::identity::{PeerCertificate, PeerIdentity};

/// A connection, encrypted or not.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for T {}

/// Who is at the other end, as far as a handshake tells.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Who it has proved to be.
    pub identity: PeerIdentity,
    /// What the certificate is worth that it showed, if any.
    pub certificate: Option<PeerCertificate>,
}

/// A source of connections.
pub trait Accept: Send {
    /// The connections, not greeted yet.
    type Connection: Handshake;

    /// The next connection. Dropping the future loses none.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Connection>> + Send;
}

/// A connection on which the two sides may have to agree on something before the first request.
pub trait Handshake: Send + 'static {
    /// What requests are read from.
    type Stream: Stream;

    /// Where the other side is, if it is anywhere.
    fn peer_address(&self) -> Option<IpAddr> {
        None
    }

    /// Agrees, and says who the other side has proved to be. Runs in the connection's own task,
    /// under [`super::Limits::handshake_timeout`].
    fn handshake(self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;
}

/// On a plain stream there is nothing to agree on, and nobody has proved to be anyone.
impl<S: Stream> Handshake for S {
    type Stream = S;

    async fn handshake(self) -> io::Result<(S, Peer)> {
        Ok((self, Peer::default()))
    }
}

impl Accept for TcpListener {
    type Connection = TcpStream;

    async fn accept(&mut self) -> io::Result<TcpStream> {
        let (stream, _peer) = TcpListener::accept(self).await?;
        // Answers and watch events are small and should leave at once.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}
