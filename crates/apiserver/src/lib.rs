//! The Kubernetes API over HTTP: the API server as one `tower::Service`, and its listeners.
//!
//! [`ApiServer`] answers requests, independent of the transport; [`listen`] serves them from sockets. Storage and
//! validation of objects belong to `coracle_registry`; this crate authenticates, authorizes, routes, decodes and
//! encodes.

mod activity;
mod admin;
pub mod admission;
mod audit_id;
mod authentication;
pub mod authorization;
mod body;
mod chain;
mod cluster_cache;
mod credential_scope;
mod decode_memory;
mod deleted_cluster;
mod discovery;
mod dispatch;
mod flow;
pub mod health;
pub mod identity;
mod impersonation;
pub mod listen;
mod metrics;
mod negotiate;
mod openapi;
mod openid;
mod options;
mod request_info;
mod request_log;
mod resource_metrics;
mod served_kinds;
mod service;
mod simulated_nodes;
mod status;
mod token;
mod verbs;
mod websocket;

pub use activity::Activity;
pub use authentication::{Anonymous, AuthenticationConfig, FrontProxy, StaticTokens, TokenFileError};
pub use authorization::{Authorizer, MastersOnly, Permissions};
pub use body::{MAX_REQUEST_BODY_BYTES, ResponseBody};
pub use credential_scope::{ClusterReference, CredentialScope, MalformedScope, SCOPE_EXTENSION};
pub use flow::FlowLimits;
pub use health::{HealthChecks, Unhealthy};
pub use identity::{Identity, PeerCertificate, PeerIdentity};
pub use listen::{Accept, Limits, Server};
pub use resource_metrics::{Measured, MetricsSource, NodeUsage, PodUsage, Usage};
pub use service::{ApiServer, BootstrapError, UnknownCluster};
pub use simulated_nodes::{LogLine, SimulatedNodes};
pub use token::{
    EcdsaSigner, LegacySubject, PublicKey, RotatingSigner, SignerError, TokenPolicy, TokenSigner,
    issue_legacy,
};

/// Types of `coracle_registry` for assembling a server.
pub use coracle_registry::network;
pub use coracle_registry::{
    AuditAnnotations, ClusterInfo, ClusterLimits, ClusterUsage, DEFAULT_CLUSTER, Endpoint,
    Error as RegistryError, Fence, HeldLease, LimitsChange, Registry, ServerInfo,
};
