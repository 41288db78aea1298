//! The group `rbac.authorization.k8s.io`: roles and bindings.

mod binding;
pub mod cluster_role;
pub mod cluster_role_binding;
pub mod permission;
pub mod policy_rule;
pub mod role;
pub mod role_binding;

/// Name of the group.
pub const GROUP: &str = "rbac.authorization.k8s.io";
