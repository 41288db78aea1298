//! Rejects plain HTTP requests on a TLS port with the message of Go's server (`net/http`), which tools recognize. A TLS
//! alert would not show the cause.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ANSWER: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Bytes of the request that are read before the response: closing a socket with unread bytes resets the connection,
/// and the client would lose the response. That can still happen for a longer request.
const READ_BYTES: usize = 8 * 1024;

/// Returns true if the stream begins with an HTTP method, which no TLS record does. Reads nothing from the stream.
pub(super) async fn is_spoken_on(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let peeked = stream.peek(&mut first).await?;
    Ok(peeked == 1 && first[0].is_ascii_uppercase())
}

/// Sends the error response and closes the connection.
pub(super) async fn refuse(mut stream: TcpStream) -> io::Error {
    match answer(&mut stream).await {
        Ok(()) => io::Error::new(io::ErrorKind::InvalidData, "the client speaks plain HTTP"),
        Err(error) => error,
    }
}

async fn answer(stream: &mut TcpStream) -> io::Result<()> {
    let mut request = vec![0; READ_BYTES];
    let _taken = stream.read(&mut request).await?;
    stream.write_all(ANSWER).await?;
    stream.shutdown().await
}
