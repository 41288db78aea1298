//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy: rules of the cluster's administrators as CEL expressions.
//!
//! Policies and bindings are read for each write; their compiled form is cached as long as they do not change. In a
//! cluster without bindings this costs one lookup in an empty range.

mod compiled;
mod evaluation;
mod matching;
mod metrics;
mod mutating;
mod params;
mod patch;
mod request;
mod selection;
mod validating;
mod verdict;

pub(super) use mutating::MutatingAdmissionPolicy;
pub(super) use validating::ValidatingAdmissionPolicy;

use coracle_registry::ParseCache;
use request::PolicyRequest;

/// Size of the cached compiled policies, and of the bindings. A compiled policy is about as large as its text.
const COMPILED_BYTES: usize = 1 << 20;

/// Resources, with their groups, that policies do not apply to: those that could lock out all users, and those that are
/// only queries.
const EXEMPT: [(&str, &str); 12] = [
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

fn is_exempt(request: &PolicyRequest<'_>) -> bool {
    EXEMPT.contains(&(request.group(), request.resource()))
}

fn cache<T>() -> ParseCache<T> {
    ParseCache::new(COMPILED_BYTES)
}

#[cfg(test)]
mod audit_tests;
#[cfg(test)]
mod tests;
