//! What makes a machine a node.
//!
//! So far that is one part of its HTTP API: who may use it. Nodes without a machine are whole ([`fake`]).

pub mod fake;
pub mod server;
