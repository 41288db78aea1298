//! Request bodies that the service does not read to their end.
//!
//! Python's http.client and curl read a response only after they have sent their request. A server that answers and
//! closes while such a client still sends makes its connection fail, and the response is lost. So the rest of a body is
//! read and dropped before the response goes out, up to limits of bytes and time. Go's server waits after the response
//! instead (`closeWriteAndWait` of net/http).

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

/// Bytes that are read and dropped: five times the largest body that is accepted. A client that sends more sees its
/// connection closed, after the response if it reads one meanwhile.
const MAX_DRAINED_BYTES: u64 = 16 * 1024 * 1024;

/// Time to read the rest of a body. A slower client gets its response while it still sends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest pause of a client while it sends: a client that waits for the response sends nothing. Go's server waits as
/// long (`rstAvoidanceDelay` of net/http).
const DRAIN_STALL: Duration = Duration::from_millis(500);

/// The body of a request as a connection receives it.
pub struct IncomingBody {
    /// `None` once dropped.
    body: Option<Incoming>,
    rest: Rest,
    /// True if the client waits for `100 Continue` (`Expect: 100-continue`), which was not sent yet.
    is_held_back: bool,
}

impl IncomingBody {
    pub(super) fn new(body: Incoming, headers: &HeaderMap, rest: Rest) -> Self {
        let expects = headers.get(header::EXPECT).map(HeaderValue::as_bytes).unwrap_or_default();
        let is_held_back = expects.eq_ignore_ascii_case(b"100-continue");
        Self { body: Some(body), rest, is_held_back }
    }
}

impl Body for IncomingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.is_held_back = false;
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for IncomingBody {
    fn drop(&mut self) {
        if !self.is_held_back && !self.is_end_stream() {
            *self.rest.0.lock().unwrap_or_else(PoisonError::into_inner) = self.body.take();
        }
    }
}

/// Holds the unread part of a body after the service has dropped the body.
#[derive(Clone, Default)]
pub(super) struct Rest(Arc<Mutex<Option<Incoming>>>);

impl Rest {
    /// Reads and drops the rest of the body, within the limits.
    pub(super) async fn drain(&self) {
        let rest = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(rest) = rest {
            drain(rest, Instant::now() + DRAIN_TIMEOUT).await;
        }
    }
}

/// Reads a body up to its end, an error, the deadline or the limit. A body whose `Content-Length` exceeds the limit is
/// not read at all.
async fn drain<B: Body<Data = Bytes> + Unpin>(mut body: B, deadline: Instant) {
    let mut left = MAX_DRAINED_BYTES;
    while body.size_hint().lower() <= left {
        let limit = deadline.min(Instant::now() + DRAIN_STALL);
        let Ok(Some(Ok(frame))) = tokio::time::timeout_at(limit, body.frame()).await else { return };
        let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
        if bytes > left {
            return;
        }
        left -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures_util::stream;
    use http_body_util::{Full, StreamBody};

    use super::*;

    const PIECE: u64 = 1024 * 1024;

    /// An endless body that counts the chunks that are read.
    fn endless(read: Arc<AtomicU64>, pause: Duration) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let pieces = stream::unfold(read, move |read| async move {
            tokio::time::sleep(pause).await;
            read.fetch_add(1, Ordering::Relaxed);
            let piece = Bytes::from(vec![0; PIECE as usize]);
            Some((Ok(Frame::data(piece)), read))
        });
        StreamBody::new(Box::pin(pieces))
    }

    #[tokio::test(start_paused = true)]
    async fn draining_ends_at_the_limit_of_bytes() {
        let read = Arc::<AtomicU64>::default();
        drain(endless(read.clone(), Duration::ZERO), Instant::now() + DRAIN_TIMEOUT).await;
        assert_eq!(read.load(Ordering::Relaxed), MAX_DRAINED_BYTES / PIECE + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn draining_ends_at_the_deadline() {
        let (read, began) = (Arc::<AtomicU64>::default(), Instant::now());
        drain(endless(read.clone(), Duration::from_millis(450)), began + DRAIN_TIMEOUT).await;
        assert_eq!(began.elapsed(), DRAIN_TIMEOUT);
        assert_eq!(read.load(Ordering::Relaxed), 11);
    }

    #[tokio::test(start_paused = true)]
    async fn draining_ends_when_the_client_stops_sending() {
        let (read, began) = (Arc::<AtomicU64>::default(), Instant::now());
        drain(endless(read, Duration::from_secs(1)), began + DRAIN_TIMEOUT).await;
        assert_eq!(began.elapsed(), DRAIN_STALL);
    }

    #[tokio::test]
    async fn body_that_announces_too_much_is_not_read() {
        let body = Full::new(Bytes::from(vec![0; MAX_DRAINED_BYTES as usize + 1]));
        drain(body, Instant::now() + DRAIN_TIMEOUT).await;
    }
}
