//! Data derived from the objects of a cluster, for the most recently used clusters.
//!
//! [`ObjectCache`] holds an index of some objects of one cluster and keeps it current without a task;
//! [`ClusterLru`] holds one value for each cluster in use. Authorizers index roles and the objects that nodes need,
//! flow control indexes FlowSchemas and PriorityLevelConfigurations.

mod cluster_lru;
mod object_cache;

pub(crate) use cluster_lru::ClusterLru;
pub(crate) use object_cache::{ObjectCache, ObjectIndex, Source};
