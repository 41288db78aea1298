//! Requests as a dump shows them.

use std::sync::Arc;

use coracle_registry::Identity;
use http::{Method, Uri};
use tokio::time::Instant;

use super::configuration::Flow;
use super::work::WorkEstimate;
use crate::authorization::RequestInfo;

/// What names a request later. Cheap to make: nothing is copied.
#[derive(Clone)]
pub(super) struct RequestSummary {
    user: Arc<Identity>,
    method: Method,
    uri: Uri,
    is_write: bool,
}

impl RequestSummary {
    pub(super) fn new(user: &Arc<Identity>, info: &RequestInfo) -> Self {
        let (method, uri) = info.method_and_uri();
        let is_write = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        Self { user: user.clone(), method: method.clone(), uri: uri.clone(), is_write }
    }

    pub(super) fn is_write(&self) -> bool {
        self.is_write
    }

    pub(super) fn user(&self) -> &Identity {
        &self.user
    }

    pub(super) fn info(&self) -> RequestInfo {
        RequestInfo::of(&self.method, &self.uri)
    }
}

/// A request of a limited level that waits or is executed.
pub(super) struct RequestReport {
    pub(super) flow: Arc<Flow>,
    /// None at a level without queues.
    pub(super) queue: Option<u64>,
    /// Its place in the queue. None while it is executed.
    pub(super) place: Option<usize>,
    pub(super) request: RequestSummary,
    pub(super) arrived: Instant,
    pub(super) estimate: WorkEstimate,
    /// None while it waits.
    pub(super) started: Option<Instant>,
}
