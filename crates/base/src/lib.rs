//! What std lacks and every part of Coracle needs: one clock, one source of randomness,
//! back-off, tasks that always have an owner, a stack that is large enough for deep values, values to wait for, numbers that are counted, and errors with their causes
//! on one line.
//!
//! Nothing here knows Kubernetes, a store or a network.

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
