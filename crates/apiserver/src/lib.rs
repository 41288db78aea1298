//! HTTP in, HTTP out: the API server as one `tower::Service`, and what listens for it.
//!
//! [`ApiServer`] answers requests and does not care where they come from; [`listen`] takes
//! them from sockets. It knows no store: what it needs from below is handed in.

mod body;
pub mod health;
pub mod listen;
mod service;
mod status;

pub use body::{MAX_REQUEST_BODY_BYTES, ResponseBody};
pub use health::HealthChecks;
pub use listen::{Accept, Limits, Server};
pub use service::ApiServer;
