//! HTTP/1.1 response bodies: finds the end of a body and the data in the received bytes.

use anyhow::{Context, Result, bail};
use http::StatusCode;
use httparse::{Header, Status};

/// State of a response body that is being received.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Body {
    framing: Framing,
}

#[derive(Debug, PartialEq, Eq)]
enum Framing {
    /// This many bytes remain.
    Length(u64),
    /// Inside a chunk: this many bytes remain, including the line break.
    Piece(u64),
    /// Before the size line of the next chunk.
    Size,
    /// Before the line break after the last, empty chunk.
    Trailer,
    /// The body ends with the connection.
    Everything,
}

/// Bytes of the line break after each chunk.
const LINE_BREAK: u64 = 2;

/// The classification of the first received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Bytes of framing.
    pub(super) skipped: usize,
    /// Bytes of data after them.
    pub(super) data: usize,
}

impl Body {
    /// The body of a response with these headers.
    pub(super) fn of(status: StatusCode, headers: &[Header<'_>]) -> Result<Self> {
        let header = |name: &str| headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        let framing = if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
            Framing::Length(0)
        } else if let Some(encoding) = header("transfer-encoding") {
            if !encoding.value.eq_ignore_ascii_case(b"chunked") {
                bail!("a response is encoded as {}", String::from_utf8_lossy(encoding.value));
            }
            Framing::Size
        } else if let Some(length) = header("content-length") {
            Framing::Length(std::str::from_utf8(length.value)?.parse().context("invalid content-length")?)
        } else {
            Framing::Everything
        };
        Ok(Self { framing })
    }

    pub(super) fn is_over(&self) -> bool {
        self.framing == Framing::Length(0)
    }

    /// Handles the end of the connection, with which only some bodies may end.
    pub(super) fn ended(&mut self) -> Result<()> {
        if self.framing != Framing::Everything {
            bail!("the server closed the connection");
        }
        self.framing = Framing::Length(0);
        Ok(())
    }

    /// Classifies the first of these bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Taken> {
        let mut skipped = 0;
        loop {
            let rest = &bytes[skipped..];
            match &mut self.framing {
                Framing::Length(left) => {
                    let data = at_most(*left, rest.len());
                    *left -= data as u64;
                    return Ok(Taken { skipped, data });
                }
                Framing::Everything => return Ok(Taken { skipped, data: rest.len() }),
                Framing::Piece(left) if *left > LINE_BREAK => {
                    let data = at_most(*left - LINE_BREAK, rest.len());
                    *left -= data as u64;
                    return Ok(Taken { skipped, data });
                }
                Framing::Piece(left) => {
                    let passed = at_most(*left, rest.len());
                    *left -= passed as u64;
                    skipped += passed;
                    if *left > 0 {
                        return Ok(Taken { skipped, data: 0 });
                    }
                    self.framing = Framing::Size;
                }
                Framing::Size => match httparse::parse_chunk_size(rest) {
                    Ok(Status::Complete((length, size))) => {
                        skipped += length;
                        self.framing =
                            if size == 0 { Framing::Trailer } else { Framing::Piece(size + LINE_BREAK) };
                    }
                    Ok(Status::Partial) => return Ok(Taken { skipped, data: 0 }),
                    Err(_) => bail!("invalid chunk size"),
                },
                Framing::Trailer => {
                    if rest.len() < LINE_BREAK as usize {
                        return Ok(Taken { skipped, data: 0 });
                    }
                    skipped += LINE_BREAK as usize;
                    self.framing = Framing::Length(0);
                }
            }
        }
    }
}

fn at_most(limit: u64, length: usize) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX).min(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data of a body received in pieces of `size` bytes, and whether it is complete.
    fn read(mut body: Body, sent: &[u8], size: usize) -> (String, bool) {
        let (mut said, mut unread) = (Vec::new(), Vec::new());
        for piece in sent.chunks(size) {
            unread.extend_from_slice(piece);
            while !body.is_over() {
                let taken = body.take(&unread).unwrap();
                let end = taken.skipped + taken.data;
                said.extend_from_slice(&unread[taken.skipped..end]);
                unread.drain(..end);
                if taken.data == 0 {
                    break;
                }
            }
        }
        (String::from_utf8(said).unwrap(), body.is_over())
    }

    fn body(headers: &[(&'static str, &'static [u8])]) -> Result<Body> {
        let headers: Vec<_> = headers.iter().map(|&(name, value)| Header { name, value }).collect();
        Body::of(StatusCode::OK, &headers)
    }

    #[test]
    fn bodies_end_correctly_for_any_segmentation() {
        let pieces = b"5\r\nhello\r\n10\r\n, world of bytes\r\n0\r\n\r\n";
        for size in 1..=pieces.len() {
            let chunked = body(&[("Transfer-Encoding", b"chunked")]).unwrap();
            assert_eq!(read(chunked, pieces, size), ("hello, world of bytes".to_owned(), true), "by {size}");
            let measured = body(&[("content-length", b"5")]).unwrap();
            assert_eq!(read(measured, b"hello", size), ("hello".to_owned(), true));
        }
        assert_eq!(read(body(&[]).unwrap(), b"hello", 2), ("hello".to_owned(), false));
    }

    #[test]
    fn truncated_or_malformed_responses_are_errors() {
        let mut chunked = body(&[("transfer-encoding", b"chunked")]).unwrap();
        assert!(chunked.ended().is_err());
        let mut everything = body(&[]).unwrap();
        everything.ended().unwrap();
        assert!(everything.is_over());
        assert!(body(&[("transfer-encoding", b"gzip")]).is_err());
        assert!(body(&[("content-length", b"many")]).is_err());
        assert!(Body { framing: Framing::Size }.take(b"no number\r\n").is_err());
    }
}
