//! The bodies of requests and responses, and how large a request may be.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};

use crate::status::Refusal;

/// The largest request body, as in upstream (`MaxRequestBodyBytes` in `pkg/server/config.go`
/// of k8s.io/apiserver): twice etcd's default limit for a request, so that an object that fits
/// the store fits here in any encoding. What is larger is refused with 413.
pub const MAX_REQUEST_BODY_BYTES: usize = 3 * 1024 * 1024;

/// How long the body of a request may take to come, which is as long as upstream lets a request take.
/// Then the request is refused with 504.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// The body of every response: known beforehand, or a stream of events.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// A body that is known.
pub(crate) fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into()).boxed_unsync()
}

/// Whether the request announces more than the limit. Bodies that do not announce their size
/// are cut off while they are read.
pub(crate) fn announces_too_much<B>(request: &Request<B>) -> bool {
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let bytes = announced.and_then(|text| text.parse::<u64>().ok());
    bytes.is_some_and(|bytes| bytes > MAX_REQUEST_BODY_BYTES as u64)
}

/// Reads a whole body, up to the limits of size and time.
pub(crate) async fn read<B>(body: B) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let whole = Limited::new(body, MAX_REQUEST_BODY_BYTES).collect();
    match tokio::time::timeout(READ_TIMEOUT, whole).await.map_err(|_late| Refusal::too_slow())? {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(Refusal::too_large()),
        Err(error) => Err(Refusal::bad_request(format!("cannot read the request body: {error}"))),
    }
}

/// A body for the sake of which something is held until its end, or until nobody wants it any more.
pub(crate) struct Held<B, T> {
    body: B,
    _held: T,
}

impl<B, T> Held<B, T> {
    pub(crate) fn new(body: B, held: T) -> Self {
        Self { body, _held: held }
    }
}

impl<B: Body + Unpin, T: Unpin> Body for Held<B, T> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let never = futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let began = tokio::time::Instant::now();
        let refusal = read(StreamBody::new(never)).await.expect_err("a refusal");
        assert_eq!(began.elapsed(), READ_TIMEOUT);
        assert_eq!(refusal.into_response(None).status(), 504);
    }
}
