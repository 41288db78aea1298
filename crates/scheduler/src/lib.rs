//! The scheduler of a cluster: it chooses the node each pod runs on.
//!
//! It watches the API like any controller, schedules one pod at a time, and writes bindings. Its caches are
//! updated incrementally (`cache`), so the cost of a decision depends on the pod's constraints and not on
//! the size of the cluster. Scheduling rules are plugins at the extension points of kube-scheduler's
//! framework (`framework`, `plugins`); to add one, write its file and a line in the table of `plugins`.
//! Programs that embed the scheduler add theirs to the [`Registry`] of a [`Config`].

mod cache;
mod cluster_state;
mod config;
mod cycle;
#[cfg(test)]
mod fixture;
pub mod framework;
mod metrics;
mod plugins;
mod queue;
mod registry;
mod run;
mod simulation;
mod storage;
mod view;

pub use cache::{NodeIndex, NodeInfo};
pub use cluster_state::ClusterState;
pub use config::{Config, ConfigError, DEFAULT_SCHEDULER_NAME, PluginConfig, ProfileConfig};
pub use registry::{PluginContext, PluginError, Registry};
pub use run::register;
pub use simulation::Simulation;
pub use view::node::NodeChanges;
pub use view::{Node, Pod, Resources};

/// Types with which plugins name and watch objects.
pub use coracle_runtime::{ClusterId, Informer, ObjectKey, Selection, informer};
