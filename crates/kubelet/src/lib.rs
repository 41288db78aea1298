//! The node side of Kubernetes.
//!
//! So far it has authentication and authorization for the kubelet's HTTP API ([`server`]). Simulated nodes are in
//! `coracle-fake-node`.

pub mod server;
