//! SelfSubjectRulesReview: the rules of the user of the request in a namespace. Created for its response, never
//! stored. A missing namespace is a bad request rather than an invalid object, so the handler of the review checks
//! it.

use std::sync::LazyLock;

use serde_json::Value;

use crate::kind::{Declaration, Kind, Scope, Verbs};
use crate::kinds::rules;

/// [`Kind`] of SelfSubjectRulesReview objects.
pub struct SelfSubjectRulesReview;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    verbs: Verbs::CREATE,
    columns: rules::plain_columns(),
    ..Declaration::new(
        "authorization.k8s.io",
        &["v1"],
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
        Scope::Cluster,
    )
});

impl Kind for SelfSubjectRulesReview {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        rules::plain_cells(object)
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        let review = serde_json::json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": "default"},
        });
        crate::samples::Samples {
            valid: vec![review],
            invalid: Vec::new(),
            updates: Vec::new(),
            invalid_updates: Vec::new(),
        }
    }
}
