//! Kinds of admissionregistration.k8s.io.

mod bindings;
mod match_resources;
pub mod mutating_admission_policy;
pub mod mutating_admission_policy_binding;
pub mod mutating_webhook_configuration;
mod operation_rules;
mod policies;
pub mod validating_admission_policy;
pub mod validating_admission_policy_binding;
pub mod validating_webhook_configuration;
mod webhooks;

pub(crate) use webhooks::check_versions as check_review_versions;

use serde_json::Value;

use crate::view;

/// Suffix of names that are reserved for configurations from static manifest files.
const STATIC_SUFFIX: &str = ".static.k8s.io";

/// Warning about a name with the reserved suffix.
fn name_warnings(object: &Value) -> Vec<String> {
    if !view::name(object).ends_with(STATIC_SUFFIX) {
        return Vec::new();
    }
    let reserved = "are reserved for static manifest-based configurations and cannot be managed via the API";
    vec![format!("metadata.name: names ending with \"{STATIC_SUFFIX}\" {reserved}")]
}
