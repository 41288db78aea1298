//! The bodies of requests and responses, and how large a request may be.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::Full;

/// The largest request body, as in upstream (`MaxRequestBodyBytes` in `pkg/server/config.go`
/// of k8s.io/apiserver): twice etcd's default limit for a request, so that an object that fits
/// the store fits here in any encoding. What is larger is refused with 413.
pub const MAX_REQUEST_BODY_BYTES: usize = 3 * 1024 * 1024;

/// The body of every response.
pub type ResponseBody = Full<Bytes>;

/// Whether the request announces more than the limit. Bodies that do not announce their size
/// are cut off while they are read.
pub(crate) fn announces_too_much<B>(request: &Request<B>) -> bool {
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let bytes = announced.and_then(|text| text.parse::<u64>().ok());
    bytes.is_some_and(|bytes| bytes > MAX_REQUEST_BODY_BYTES as u64)
}
