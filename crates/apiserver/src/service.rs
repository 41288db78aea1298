//! The server as a function from request to response, with no idea of connections.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use tower::Service;

use crate::body::{ResponseBody, announces_too_much};
use crate::health::{HealthChecks, Probe, Wishes};
use crate::status::Refusal;

/// What health questions may be asked with; they change nothing.
const READ_METHODS: &[Method] = &[Method::GET, Method::HEAD];

/// The API server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ApiServer {
    health: HealthChecks,
}

impl ApiServer {
    /// A server that reports these checks.
    pub fn new(health: HealthChecks) -> Self {
        Self { health }
    }

    async fn answer(&self, request: Request<()>) -> Result<Response<ResponseBody>, Refusal> {
        if announces_too_much(&request) {
            return Err(Refusal::TooLarge);
        }
        let (probe, check) = Probe::of_path(request.uri().path()).ok_or(Refusal::NotFound)?;
        if !READ_METHODS.contains(request.method()) {
            return Err(Refusal::MethodNotAllowed { allowed: READ_METHODS });
        }
        match check {
            Some(name) => self.answer_check(probe, name).await,
            None => Ok(self.answer_probe(probe, request.uri().query().unwrap_or_default()).await),
        }
    }

    async fn answer_probe(&self, probe: Probe, query: &str) -> Response<ResponseBody> {
        let wishes = Wishes::of_query(query);
        let report = self.health.run(probe, &wishes.excluded).await;
        let healthy = report.is_healthy();
        plain_text(healthy, report.text(wishes.verbose))
    }

    async fn answer_check(&self, probe: Probe, name: &str) -> Result<Response<ResponseBody>, Refusal> {
        let healthy = self.health.run_one(probe, name).await.ok_or(Refusal::NotFound)?;
        let text = if healthy { "ok" } else { "internal server error: reason withheld\n" };
        Ok(plain_text(healthy, text.to_owned()))
    }
}

impl<B> Service<Request<B>> for ApiServer {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        let request = request.map(drop);
        Box::pin(async move { Ok(server.answer(request).await.unwrap_or_else(Refusal::into_response)) })
    }
}

fn plain_text(healthy: bool, text: String) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::new(Bytes::from(text)));
    if !healthy {
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain; charset=utf-8"));
    // Whatever answered yesterday says nothing about now.
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    response
}
