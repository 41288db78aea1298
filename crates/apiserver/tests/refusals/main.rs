//! Rejected requests: each response is that of kube-apiserver v1.36.4.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod patch;
mod paths;
mod services;
#[path = "../support/mod.rs"]
mod support;
mod update;
