//! Where the body of an answer ends, and what of the bytes that come belongs to it.

use anyhow::{Context, Result, bail};
use http::StatusCode;
use httparse::{Header, Status};

/// What is still to come of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Body {
    framing: Framing,
}

#[derive(Debug, PartialEq, Eq)]
enum Framing {
    /// So many bytes, and that is all.
    Length(u64),
    /// Pieces that each say how long they are: so much of this one, with the line break behind it.
    Piece(u64),
    /// The length of the next piece.
    Size,
    /// The line break behind the last piece, which is empty.
    Trailer,
    /// All until the connection ends.
    Everything,
}

/// The line break behind each piece.
const LINE_BREAK: u64 = 2;

/// What was found at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// So many are not of the body.
    pub(super) skipped: usize,
    /// So many after them are.
    pub(super) data: usize,
}

impl Body {
    /// Of an answer with these headers.
    pub(super) fn of(status: StatusCode, headers: &[Header<'_>]) -> Result<Self> {
        let header = |name: &str| headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        let framing = if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
            Framing::Length(0)
        } else if let Some(encoding) = header("transfer-encoding") {
            if !encoding.value.eq_ignore_ascii_case(b"chunked") {
                bail!("an answer is encoded as {}", String::from_utf8_lossy(encoding.value));
            }
            Framing::Size
        } else if let Some(length) = header("content-length") {
            Framing::Length(std::str::from_utf8(length.value)?.parse().context("a length is no number")?)
        } else {
            Framing::Everything
        };
        Ok(Self { framing })
    }

    pub(super) fn is_over(&self) -> bool {
        self.framing == Framing::Length(0)
    }

    /// The connection has ended, which only some bodies may.
    pub(super) fn ended(&mut self) -> Result<()> {
        if self.framing != Framing::Everything {
            bail!("the server closed the connection");
        }
        self.framing = Framing::Length(0);
        Ok(())
    }

    /// Finds what belongs to the body at the beginning of these bytes.
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
                    Err(_) => bail!("a piece of an answer has no length"),
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

    /// What a body says that comes in pieces of `size` bytes, and whether it is over then.
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
    fn bodies_end_where_they_say_however_they_come() {
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
    fn an_answer_that_is_cut_off_is_no_answer() {
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
