//! Kinds of the apps group.

pub mod checks;
mod claim_template;
pub mod controller_revision;
pub mod daemon_set;
pub mod deployment;
pub mod int_or_percent;
pub mod pod_controller;
pub mod replica_set;
pub mod stateful_set;
