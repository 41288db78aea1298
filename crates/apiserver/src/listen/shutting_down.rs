//! Response to requests on connections that are opened while the server drains its requests.
//!
//! Clients would report a closed port as an error. `429` with `Retry-After` makes client-go retry the request, whatever
//! its method, since the server has not executed it. kube-apiserver does the same (`with_retry_after.go`).

use std::convert::Infallible;
use std::future::Ready;
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::{HeaderValue, Response, Version, header};
use tower::Service;

use super::ConnectionRequest;
use crate::body::ResponseBody;
use crate::health::Probe;
use crate::status::Refusal;

/// Passes health checks to the server's own service, and answers all other requests with a hint to retry.
#[derive(Clone)]
pub(super) struct ShuttingDown<S> {
    service: S,
}

impl<S> ShuttingDown<S> {
    pub(super) fn new(service: S) -> Self {
        Self { service }
    }
}

impl<S> Service<ConnectionRequest> for ShuttingDown<S>
where
    S: Service<ConnectionRequest, Response = Response<ResponseBody>, Error = Infallible>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Either<S::Future, Ready<Result<Response<ResponseBody>, Infallible>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: ConnectionRequest) -> Self::Future {
        if Probe::of_path(request.uri().path()).is_some() {
            return Either::Left(self.service.call(request));
        }
        let mut response = Refusal::shutting_down().into_response(None);
        // HTTP/2 has no such header; its connections end with the drain.
        if request.version() < Version::HTTP_2 {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Either::Right(std::future::ready(Ok(response)))
    }
}
