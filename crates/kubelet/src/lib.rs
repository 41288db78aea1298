//! What makes a machine a node.
//!
//! So far that is one part of its HTTP API: who may use it.

pub mod server;
