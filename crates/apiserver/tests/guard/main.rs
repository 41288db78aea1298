//! Isolation: the node authorizer, flow control, and limits of request and response bodies.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod bodies;
mod flow;
mod headers;
mod nodes;
mod responses;
#[path = "../support/mod.rs"]
mod support;
mod world;
