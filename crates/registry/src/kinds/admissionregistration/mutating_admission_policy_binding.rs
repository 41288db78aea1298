//! MutatingAdmissionPolicyBinding: enables a policy with parameters for some requests.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, Path};
use serde_json::Value;

use super::{bindings, match_resources, name_warnings};
use crate::kind::{Column, Declaration, Generation, Kind, Scope, texts};
use crate::view;

/// [`Kind`] of MutatingAdmissionPolicyBinding objects.
pub struct MutatingAdmissionPolicyBinding;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    prefixed_finalizers: false,
    checks_metadata_change_again: false,
    categories: texts(&["api-extensions"]),
    generation: Generation::Spec,
    unconditional_update: false,
    columns: vec![
        Column::name(),
        Column::text("PolicyName", "the policy that it puts into force"),
        Column::text("ParamRef", "the parameters of the policy"),
        Column::age(),
    ],
    storage_version_hash: "90V5FRZZ3Zg=".into(),
    ..Declaration::new(
        "admissionregistration.k8s.io",
        &["v1"],
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        "mutatingadmissionpolicybinding",
        Scope::Cluster,
    )
});

impl Kind for MutatingAdmissionPolicyBinding {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        bindings::set_defaults(object);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        bindings::check(object, &path, errors);
        if let Some(matcher) = view::at(object, &["spec", "matchResources"]) {
            match_resources::check_mutable_operations(matcher, &path.child("matchResources"), errors);
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        name_warnings(new)
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        bindings::cells(object, now)
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let valid = cluster(
        "admissionregistration.k8s.io/v1",
        "MutatingAdmissionPolicyBinding",
        json!({"spec": {
            "policyName": "policy.example.com",
            "paramRef": {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"},
            "matchResources": {"namespaceSelector": {"matchLabels": {"env": "prod"}}},
        }}),
    );
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let mut invalid = bindings::invalid_samples(&valid);
    invalid.extend([refused(
        "/spec/matchResources/resourceRules",
        json!([{"operations": ["DELETE"]}]),
        "spec.matchResources.resourceRules.operations",
        "FieldValueNotSupported",
    )]);
    Samples {
        invalid,
        valid: vec![valid],
        updates: vec![json!({"spec": {"policyName": "other"}}), json!({"spec": {"paramRef": null}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"policyName": null}}),
            "spec.policyName",
            "FieldValueRequired",
        )],
    }
}
