//! The checks: pure functions from a pod to its violation.

pub(super) mod baseline;
pub(super) mod host;
pub(super) mod restricted;
