//! The bodies of requests and responses, and how large a request may be.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, header};
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};

use crate::status::Refusal;

/// The largest request body, as in upstream (`MaxRequestBodyBytes` in `pkg/server/config.go`
/// of k8s.io/apiserver): twice etcd's default limit for a request, so that an object that fits
/// the store fits here in any encoding. What is larger is refused with 413.
pub const MAX_REQUEST_BODY_BYTES: usize = 3 * 1024 * 1024;

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

/// Reads a whole body, up to the limit.
pub(crate) async fn read<B>(body: B) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    match Limited::new(body, MAX_REQUEST_BODY_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(Refusal::too_large()),
        Err(error) => Err(Refusal::bad_request(format!("cannot read the request body: {error}"))),
    }
}
