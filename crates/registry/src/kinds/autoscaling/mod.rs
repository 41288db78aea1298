//! Kinds of the autoscaling group.

mod behavior;
pub mod conversion;
pub mod horizontal_pod_autoscaler;
mod metrics;
mod targets;
