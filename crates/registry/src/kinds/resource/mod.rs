//! The group `resource.k8s.io`: devices that pods can claim.

mod admin_access;
mod allocation;
mod capacity;
mod configuration;
pub mod device_class;
mod device_requests;
mod device_selector;
mod devices;
mod lists;
mod naming;
mod node_selection;
pub mod resource_claim;
pub mod resource_claim_template;
pub mod resource_slice;
mod taints;
