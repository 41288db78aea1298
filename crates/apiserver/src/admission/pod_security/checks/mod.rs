//! The checks: each a pure function from a pod to what is wrong with it.

pub(super) mod baseline;
pub(super) mod host;
pub(super) mod restricted;
