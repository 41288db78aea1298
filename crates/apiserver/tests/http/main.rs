//! What clients see of the API, over the service itself and without sockets.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod client;
mod list;
mod metrics;
mod negotiate;
mod numbers;
mod owners;
mod watch;
mod websocket;
