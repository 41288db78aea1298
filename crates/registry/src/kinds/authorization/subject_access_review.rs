//! SubjectAccessReview: whether a subject has access. Created for its response, never stored.

use std::sync::LazyLock;

use coracle_meta::field::ErrorList;
use serde_json::Value;

use super::attributes;
use crate::kind::{Declaration, Kind, Scope, Verbs};
use crate::kinds::rules;

/// [`Kind`] of SubjectAccessReview objects.
pub struct SubjectAccessReview;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    verbs: Verbs::CREATE,
    columns: rules::plain_columns(),
    ..Declaration::new(
        "authorization.k8s.io",
        &["v1"],
        "SubjectAccessReview",
        "subjectaccessreviews",
        "subjectaccessreview",
        Scope::Cluster,
    )
});

impl Kind for SubjectAccessReview {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        attributes::check_attributes_of_subject(object, errors);
        attributes::check_metadata(object, &[], "must be empty", errors);
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        rules::plain_cells(object)
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::with;
    use crate::samples::{Refused, Samples};

    let valid = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
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
        ],
        valid: vec![valid],
        updates: Vec::new(),
        invalid_updates: Vec::new(),
    }
}
