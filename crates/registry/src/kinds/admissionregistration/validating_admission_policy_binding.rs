//! ValidatingAdmissionPolicyBinding: enables a policy with parameters for some requests.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::Value;

use super::{bindings, name_warnings};
use crate::kind::{Column, Declaration, Generation, Kind, Scope, texts};
use crate::kinds::rules;
use crate::view;

/// [`Kind`] of ValidatingAdmissionPolicyBinding objects.
pub struct ValidatingAdmissionPolicyBinding;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    prefixed_finalizers: false,
    metadata_checks: 1,
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
    storage_version_hash: "v9715VZqakg=".into(),
    ..Declaration::new(
        "admissionregistration.k8s.io",
        &["v1"],
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicybinding",
        Scope::Cluster,
    )
});

impl Kind for ValidatingAdmissionPolicyBinding {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        bindings::set_defaults(object);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        bindings::check(object, &path, errors);
        let actions = view::items(object, &["spec", "validationActions"]);
        check_actions(actions, &path.child("validationActions"), errors);
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

/// Validates the actions for a failed validation.
fn check_actions(actions: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, action) in actions.iter().filter_map(Value::as_str).enumerate() {
        rules::one_of(&path.index(index), action, &["Audit", "Deny", "Warn"], errors);
        if !seen.insert(action) {
            errors.push(FieldError::duplicate(&path.index(index), BadValue::named(action)));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information \
                      in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(path, BadValue::json(&Value::Array(actions.to_vec())), detail));
    }
    if seen.is_empty() {
        errors.push(FieldError::required(path, "at least one validation action is required"));
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let valid = cluster(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        json!({"spec": {
            "policyName": "policy.example.com",
            "paramRef": {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"},
            "matchResources": {"namespaceSelector": {"matchLabels": {"env": "prod"}}},
            "validationActions": ["Deny", "Audit"],
        }}),
    );
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let mut invalid = bindings::invalid_samples(&valid);
    invalid.extend([
        refused("/spec/validationActions", json!([]), "spec.validationActions", "FieldValueRequired"),
        refused(
            "/spec/validationActions",
            json!(["Shout"]),
            "spec.validationActions[0]",
            "FieldValueNotSupported",
        ),
        refused(
            "/spec/validationActions",
            json!(["Deny", "Deny"]),
            "spec.validationActions[1]",
            "FieldValueDuplicate",
        ),
        refused(
            "/spec/validationActions",
            json!(["Deny", "Warn"]),
            "spec.validationActions",
            "FieldValueInvalid",
        ),
    ]);
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
