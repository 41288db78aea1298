//! Clients that forgot the `s` of `https`. Told so in the words of Go's server (`net/http`),
//! since tools recognize them; a bare alert of TLS would leave them guessing.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ANSWER: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// As much of the request as is taken in before the answer: closing a socket that holds unread
/// bytes resets it, and the client would lose the answer. A longer request takes that risk.
const READ_BYTES: usize = 8 * 1024;

/// Whether the client begins with a method of HTTP, which no record of TLS looks like. Takes
/// nothing from the stream.
pub(super) async fn is_spoken_on(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let peeked = stream.peek(&mut first).await?;
    Ok(peeked == 1 && first[0].is_ascii_uppercase())
}

/// Answers and ends the connection.
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
