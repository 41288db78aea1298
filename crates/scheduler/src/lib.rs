//! The scheduler of a cluster: which node a pod runs on.
//!
//! It follows the API like any controller, decides about one pod after the other, and tells the server.
//! What is known is kept so that a decision costs what the pod asks about, and not what the cluster holds
//! (`cache`). Rules are plugins at the points upstream's framework has (`framework`, `plugins`); to add one,
//! write its file and a line in the table of `plugins`. Programs that embed the scheduler add theirs to the
//! [`Registry`] of a [`Config`].

mod cache;
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
mod world;

pub use cache::{NodeIndex, NodeInfo};
pub use config::{Config, ConfigError, DEFAULT_SCHEDULER_NAME, PluginConfig, ProfileConfig};
pub use registry::{PluginContext, PluginError, Registry};
pub use run::register;
pub use simulation::Simulation;
pub use view::node::NodeChanges;
pub use view::{Node, Pod, Resources};
pub use world::World;

/// What plugins name and follow objects with.
pub use coracle_runtime::{ClusterId, Informer, ObjectKey, Selection, informer};
