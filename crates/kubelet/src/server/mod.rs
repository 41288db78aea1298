//! The node's HTTP API.

pub mod auth;
