//! The Kubernetes kinds, and one generic life cycle (create, read, update, delete, watch) for the objects of all of
//! them.
//!
//! A kind is declared once, in one file under `kinds`, as one value of the trait [`Kind`]. Routes, discovery,
//! storage, validation and tables follow from the declaration.

pub mod admission;
mod aggregation;
pub mod allocation;
mod allocation_metrics;
mod audit;
mod bootstrap;
pub mod catalog;
mod cluster;
mod clusters;
mod condition;
mod crd;
pub mod encode;
mod error;
mod fence;
pub mod form;
mod identity;
mod internal_types;
mod keys;
pub mod kind;
mod kind_ref;
pub mod kinds;
pub mod lifecycle;
pub mod network;
mod network_usage;
mod parse_cache;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
pub mod scale;
mod scan;
pub mod view;

pub use coracle_crd::OpenApi;
pub use coracle_store::{Entry, EntryId, EntryParts, Revision};

pub use aggregation::RemoteVersion;
pub use audit::AuditAnnotations;
pub use bootstrap::{Endpoint, ServerInfo};
pub use cluster::{Cluster, Registry};
pub use clusters::{ClusterInfo, ClusterLimits, ClusterUsage, DEFAULT_CLUSTER, LimitsChange};
pub use condition::Conditions;
pub use error::{Error, Result, StoreFailure, Subject};
pub use fence::{Fence, HeldLease};
pub use identity::Identity;
pub use kind::{Column, Declaration, Generation, Kind, Scope, StatusMetadata, StoredAs, Subresource, Verbs};
pub use kind_ref::KindRef;
pub use network::ServiceNetwork;
pub use network_usage::{AddressUsage, PortUsage};
pub use parse_cache::ParseCache;
