//! Admission control: the built-in admission plugins, and those of an embedder.
//!
//! Each plugin is one file here and one line in `chain`. A [`Plugin`] declares the writes that it handles, and is
//! called for no others. Validation that belongs to a kind is not admission: it is in the registry, with the kind.

mod certificate_approval;
mod certificate_signing;
mod certificate_subject_restriction;
mod chain;
mod create_authorization;
mod default_class;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod limit_ranger;
mod metrics;
mod namespace_lifecycle;
mod node_declared_feature_validator;
mod node_restriction;
mod pass;
mod persistent_volume_claim_resize;
mod plugin;
mod pod_resize_validator;
mod pod_security;
mod pod_topology_labels;
mod policy;
mod priority;
mod rbac_escalation;
mod read;
mod resource_quota;
mod runtime_class;
mod service_account;
mod service_address;
mod signers;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
#[cfg(test)]
mod testing;
mod unimplemented_extensions;
#[cfg(test)]
mod upstream;

pub use chain::Chain;
pub use coracle_registry::admission::{Admission, Attributes, BoxFuture, Operation};
pub use coracle_registry::{Error, Result, view};
pub use pass::Pass;
pub use plugin::{Plugin, Rule, forbidden, nothing_to_say};

// Names that several plugins use.
const PODS: &str = "pods";
const PERSISTENT_VOLUME_CLAIMS: &str = "persistentvolumeclaims";
const CERTIFICATES: &str = "certificates.k8s.io";
const CERTIFICATE_SIGNING_REQUESTS: &str = "certificatesigningrequests";
