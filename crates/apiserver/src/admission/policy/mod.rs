//! Admission policies: rules that the cluster's administrators write as expressions.
//!
//! Policies and bindings are read for each write; what is made of them is kept as long as they do
//! not change. A cluster without bindings pays for one look into an empty range.

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

/// The bytes of policies, and of bindings, of which the compiled form is kept. A policy compiles to
/// about as much as it is long.
const COMPILED_BYTES: usize = 1 << 20;

/// Resources, with their groups, that policies are not asked about: those that could lock everybody
/// out, and those that are only questions.
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
