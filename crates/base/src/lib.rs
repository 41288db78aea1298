//! Foundations that every crate of Coracle uses: the clock, randomness, backoff, owned tasks, a
//! stack for deeply nested values, observable values, metrics and error chains.
//!
//! This crate has no Kubernetes, storage or network code.

pub mod backoff;
pub mod clock;
pub mod deep_stack;
pub mod error_chain;
pub mod metrics;
pub mod rng;
pub mod tasks;
pub mod watched;

pub use backoff::Backoff;
pub use clock::{Clock, ManualClock, Timestamp};
pub use deep_stack::OnDeepStack;
pub use error_chain::ErrorChain;
pub use metrics::Metrics;
pub use rng::Rng;
pub use tasks::{Task, TaskError};
