//! The scheduler of a cluster: which node a pod runs on.
//!
//! It follows the API like any controller, decides about one pod after the other, and tells the server.
//! What is known is kept so that a decision costs what the pod asks about, and not what the cluster holds
//! (`cache`). Rules are plugins at the points upstream's framework has (`framework`, `plugins`); to add one,
//! write its file and a line in the table of `plugins`.

mod cache;
mod config;
mod cycle;
#[cfg(test)]
mod fixture;
mod framework;
mod plugins;
mod queue;
mod run;
mod simulation;
mod storage;
mod view;
mod world;

pub use config::{Config, DEFAULT_SCHEDULER_NAME, ProfileConfig};
pub use run::register;
pub use simulation::Simulation;
