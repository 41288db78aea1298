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
    /// Whether the connection is plain HTTP, whose requests need no credential.
    pub is_plain_http: bool,
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

/// Bytes that the kernel takes beyond what the client's window admits. Without a limit it takes 1.6 MB and more for a
/// client that does not read, which no limit of the server counts. Smaller values wake the writer of a large list
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
        // Answers and watch events are small and should leave at once.
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
