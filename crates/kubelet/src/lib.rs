//! The node side of Kubernetes.
//!
//! So far it has authentication and authorization for the kubelet's HTTP API ([`server`]), and simulated
//! nodes ([`fake`]).

pub mod fake;
pub mod server;
