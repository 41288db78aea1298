//! What is refused, and how: each answer is upstream's (v1.36.4).

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod patch;
mod paths;
#[path = "../support/mod.rs"]
mod support;
