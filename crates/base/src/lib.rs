//! What std lacks and every part of Coracle needs: one clock, one source of randomness,
//! back-off, tasks that always have an owner, and values to wait for.
//!
//! Nothing here knows Kubernetes, a store or a network.

pub mod backoff;
pub mod clock;
pub mod rng;
pub mod tasks;
pub mod watched;

pub use backoff::Backoff;
pub use clock::{Clock, ManualClock, Timestamp};
pub use rng::Rng;
pub use tasks::{Task, TaskError};
