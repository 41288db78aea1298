//! One log line for each request, at debug level: method, path, user, code and latency.
//!
//! Neither query, headers nor body are logged: they may hold tokens, secrets and the commands of `kubectl exec`. Requests
//! of components of this process are logged at trace level, because there are many more of them.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use tokio::time::Instant;

use crate::identity::{Identity, Remote};

/// A request whose response will be logged.
pub(crate) struct RequestLog {
    method: Method,
    path: String,
    audit_id: String,
    is_remote: bool,
    began: Instant,
    user: Option<Arc<Identity>>,
}

impl RequestLog {
    /// Begins the log entry of a request. None if such requests are not logged, so that nothing is copied for them.
    pub(crate) fn begin<B>(request: &Request<B>, audit_id: &str) -> Option<Self> {
        let is_remote = request.extensions().get::<Remote>().is_some();
        let is_logged = if is_remote {
            tracing::enabled!(tracing::Level::DEBUG)
        } else {
            tracing::enabled!(tracing::Level::TRACE)
        };
        is_logged.then(|| Self {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            audit_id: audit_id.to_owned(),
            is_remote,
            began: Instant::now(),
            user: None,
        })
    }

    /// The authenticated user, before impersonation.
    pub(crate) fn set_user(&mut self, user: &Arc<Identity>) {
        self.user = Some(Arc::clone(user));
    }

    /// Logs the response. The latency of a watch is the time to its response headers.
    pub(crate) fn end(&self, code: StatusCode) {
        let Self { method, path, audit_id, .. } = self;
        let user = self.user.as_ref().map_or("", |user| user.name.as_str());
        let (code, latency_ms) = (code.as_u16(), milliseconds(self.began.elapsed()));
        // Without the span of the request, which has the same fields.
        if self.is_remote {
            tracing::debug!(parent: None, %method, path, user, code, latency_ms, audit_id, "request");
        } else {
            tracing::trace!(parent: None, %method, path, user, code, latency_ms, audit_id, "request");
        }
    }
}

/// Formats milliseconds with three digits after the point: most requests take less than a millisecond.
fn milliseconds(latency: Duration) -> f64 {
    (latency.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_has_microseconds() {
        assert_eq!(milliseconds(Duration::from_nanos(1_234_567)), 1.235);
    }
}
