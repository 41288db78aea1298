//! The built-in kinds: one file for each, one directory for each group.

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod apps;
pub mod authentication;
pub mod authorization;
pub mod autoscaling;
pub mod batch;
pub mod certificates;
pub(crate) mod conditions;
pub mod coordination;
pub mod core;
pub mod discovery;
pub mod events;
pub mod flowcontrol;
pub mod metrics;
pub mod networking;
pub mod node;
pub mod policy;
pub(crate) mod ratchet;
pub mod rbac;
pub mod resource;
pub(crate) mod rules;
#[cfg(any(test, feature = "samples"))]
pub(crate) mod sample;
pub mod scheduling;
pub mod storage;
pub(crate) mod webhook_client;
