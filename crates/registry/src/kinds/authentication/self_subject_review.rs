//! SelfSubjectReview: the user of the request. Created for its response, never stored.

use std::sync::LazyLock;

use serde_json::Value;

use crate::kind::{Declaration, Kind, Scope, Verbs};
use crate::kinds::rules;

/// [`Kind`] of SelfSubjectReview objects.
pub struct SelfSubjectReview;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    verbs: Verbs::CREATE,
    columns: rules::plain_columns(),
    ..Declaration::new(
        "authentication.k8s.io",
        &["v1"],
        "SelfSubjectReview",
        "selfsubjectreviews",
        "selfsubjectreview",
        Scope::Cluster,
    )
});

impl Kind for SelfSubjectReview {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        rules::plain_cells(object)
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        let review = serde_json::json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "SelfSubjectReview",
        });
        crate::samples::Samples {
            valid: vec![review],
            invalid: Vec::new(),
            updates: Vec::new(),
            invalid_updates: Vec::new(),
        }
    }
}
