//! The group `node.k8s.io`.

mod overhead;
pub mod runtime_class;
mod tolerations;
