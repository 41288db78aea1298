//! The core group.

pub mod binding;
pub mod component_status;
pub mod config_map;
pub mod endpoints;
pub mod event;
mod key_pair;
pub mod label_selector;
pub mod limit_range;
pub mod namespace;
pub mod node;
pub mod persistent_volume;
pub mod persistent_volume_claim;
pub mod pod;
pub mod pod_spec;
pub mod pod_template;
pub mod replication_controller;
pub(crate) mod resource_list;
pub mod resource_quota;
pub(crate) mod rules;
pub mod secret;
pub mod service;
pub mod service_account;
pub(crate) mod taint;
pub(crate) mod unified_diff;
pub(crate) mod volume_access;
