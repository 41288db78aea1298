//! Requests as a dump shows them.

use std::sync::Arc;

use coracle_registry::Identity;
use tokio::time::Instant;

use super::configuration::Flow;
use super::work::WorkEstimate;
use crate::request_info::RequestInfo;

/// The user and the attributes of a request, shared with the request itself.
#[derive(Clone)]
pub(super) struct RequestSummary {
    user: Arc<Identity>,
    info: Arc<RequestInfo>,
}

impl RequestSummary {
    pub(super) fn new(user: &Arc<Identity>, info: &Arc<RequestInfo>) -> Self {
        Self { user: user.clone(), info: info.clone() }
    }

    pub(super) fn is_write(&self) -> bool {
        !self.info.is_read_only()
    }

    pub(super) fn user(&self) -> &Identity {
        &self.user
    }

    pub(super) fn info(&self) -> &RequestInfo {
        &self.info
    }
}

/// A request of a limited level that waits or is executed.
pub(super) struct RequestReport {
    pub(super) flow: Arc<Flow>,
    /// None at a level without queues.
    pub(super) queue: Option<u64>,
    /// Its place in the queue. None while it is executed.
    pub(super) position: Option<usize>,
    pub(super) request: RequestSummary,
    pub(super) arrived: Instant,
    pub(super) estimate: WorkEstimate,
    /// None while it waits.
    pub(super) started: Option<Instant>,
}
