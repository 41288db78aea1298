//! Who gets what, and how much of it: nodes among each other, and users.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod bodies;
mod flow;
mod headers;
mod nodes;
mod responses;
#[path = "../support/mod.rs"]
mod support;
mod world;
