//! Traits of listeners and of connections before their handshake.
//!
//! Accept and handshake are separate steps: a slow handshake delays its own connection only.

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::identity::{PeerCertificate, PeerIdentity};

/// A connection, encrypted or not.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for T {}

/// The client of a connection, as authenticated by the handshake.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The identity that the client certificate proves.
    pub identity: PeerIdentity,
    /// The verified properties of the client certificate, if one was presented.
    pub certificate: Option<PeerCertificate>,
    /// True for plain HTTP, whose requests need no credential.
    pub is_plain_http: bool,
}

/// A source of connections.
pub trait Accept: Send {
    /// An accepted connection before its handshake.
    type Connection: Handshake;

    /// Accepts the next connection. Dropping the future loses no connection.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Connection>> + Send;
}

/// A connection that may need a handshake before its first request.
pub trait Handshake: Send + 'static {
    /// The stream of requests and responses after the handshake.
    type Stream: Stream;

    /// The IP address of the peer; none if the stream is no socket.
    fn peer_address(&self) -> Option<IpAddr> {
        None
    }

    /// Performs the handshake and returns the stream with its authenticated peer. Runs in the connection's own task,
    /// under [`super::Limits::handshake_timeout`].
    fn handshake(self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;
}

/// A plain stream has no handshake, and its peer has no identity.
impl<S: Stream> Handshake for S {
    type Stream = S;

    async fn handshake(self) -> io::Result<(S, Peer)> {
        Ok((self, Peer::default()))
    }
}

/// Unsent bytes that the kernel buffers beyond the client's window. Without a limit it buffers 1.6 MB and more for a
/// client that does not read, and no limit of the server counts them. Smaller values wake the writer of a large list
/// more often.
#[cfg(target_os = "linux")]
const MAX_UNSENT_BYTES: u32 = 128 * 1024;

#[cfg(target_os = "linux")]
fn limit_unsent_bytes(stream: &TcpStream) -> io::Result<()> {
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(MAX_UNSENT_BYTES)
}

/// Other systems limit the whole buffer of a socket to some hundred KiB.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "fails where there is an option to set")]
fn limit_unsent_bytes(_: &TcpStream) -> io::Result<()> {
    Ok(())
}

impl Accept for TcpListener {
    type Connection = TcpStream;

    async fn accept(&mut self) -> io::Result<TcpStream> {
        let (stream, _peer) = TcpListener::accept(self).await?;
        // Responses and watch events are small and are sent without delay.
        stream.set_nodelay(true)?;
        limit_unsent_bytes(&stream)?;
        Ok(stream)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn kernel_keeps_few_bytes_for_a_client_that_does_not_read() {
        let mut listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let stream = Accept::accept(&mut listener).await.unwrap();
        assert_eq!(socket2::SockRef::from(&stream).tcp_notsent_lowat().unwrap(), MAX_UNSENT_BYTES);
        assert!(stream.nodelay().unwrap());
    }
}
