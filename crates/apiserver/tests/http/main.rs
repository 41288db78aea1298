//! HTTP behaviour of the API, tested on the service without sockets.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod client;
mod list;
mod metrics;
mod negotiate;
mod numbers;
mod owners;
mod watch;
mod websocket;
