//! LocalSubjectAccessReview: whether a subject has access in a namespace. Created for its response, never stored.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::attributes;
use crate::kind::{Declaration, Kind, Scope, Verbs};
use crate::kinds::rules;
use crate::{internal_types, view};

/// [`Kind`] of LocalSubjectAccessReview objects.
pub struct LocalSubjectAccessReview;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    verbs: Verbs::CREATE,
    columns: rules::plain_columns(),
    ..Declaration::new(
        "authorization.k8s.io",
        &["v1"],
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        "localsubjectaccessreview",
        Scope::Namespaced,
    )
});

impl Kind for LocalSubjectAccessReview {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        attributes::check_attributes_of_subject(object, errors);
        attributes::check_metadata(object, &["namespace"], "must be empty except for namespace", errors);
        check_namespace(object, errors);
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        rules::plain_cells(object)
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// Requires attributes in the namespace of the review.
fn check_namespace(object: &Value, errors: &mut ErrorList) {
    if let Some(attributes) = view::at(object, &["spec", "resourceAttributes"]) {
        let namespace = view::text(attributes, &["namespace"]);
        if namespace != view::text(object, &["metadata", "namespace"]) {
            let path = Path::root("spec.resourceAttributes.namespace");
            errors.push(FieldError::invalid(&path, namespace, "must match metadata.namespace"));
        }
    }
    if let Some(other) = view::at(object, &["spec", "nonResourceAttributes"]) {
        let path = Path::root("spec.nonResourceAttributes");
        errors.push(FieldError::invalid(
            &path,
            internal_types::printed("*@authorization.NonResourceAttributes", Some(other)),
            "disallowed on this kind of request",
        ));
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::with;
    use crate::samples::{Refused, Samples};

    let valid = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "LocalSubjectAccessReview",
        "metadata": {"namespace": "default"},
        "spec": {
            "user": "jane",
            "resourceAttributes": {"namespace": "default", "verb": "list", "resource": "pods"},
        },
    });
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let attributes = "spec.resourceAttributes";
    Samples {
        invalid: vec![
            refused("/spec/resourceAttributes", Value::Null, attributes, "FieldValueInvalid"),
            refused(
                "/spec/nonResourceAttributes",
                json!({"path": "/healthz"}),
                "spec.nonResourceAttributes",
                "FieldValueInvalid",
            ),
            refused("/metadata/name", json!("a"), "metadata", "FieldValueInvalid"),
            refused(
                "/spec/resourceAttributes/labelSelector",
                json!({}),
                "spec.resourceAttributes.labelSelector.requirements",
                "FieldValueRequired",
            ),
            refused(
                "/spec/resourceAttributes/fieldSelector",
                json!({"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "Exists"}]}),
                "spec.resourceAttributes.fieldSelector.rawSelector",
                "FieldValueInvalid",
            ),
            refused(
                "/spec/resourceAttributes/fieldSelector",
                json!({"requirements": [{"operator": "In", "values": ["a"]}]}),
                "spec.resourceAttributes.fieldSelector.requirements[0].key",
                "FieldValueRequired",
            ),
            refused("/spec/user", Value::Null, "spec.user", "FieldValueInvalid"),
            refused(
                "/spec/resourceAttributes/namespace",
                json!("other"),
                "spec.resourceAttributes.namespace",
                "FieldValueInvalid",
            ),
        ],
        valid: vec![valid],
        updates: Vec::new(),
        invalid_updates: Vec::new(),
    }
}
