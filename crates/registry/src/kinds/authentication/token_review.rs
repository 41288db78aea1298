//! TokenReview: authenticates a token. Created for its response, never stored.
//!
//! A missing token is a bad request rather than an invalid object, so the handler of the review checks it.

use std::sync::LazyLock;

use serde_json::Value;

use crate::kind::{Declaration, Kind, Scope, Verbs};
use crate::kinds::rules;

/// [`Kind`] of TokenReview objects.
pub struct TokenReview;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    verbs: Verbs::CREATE,
    columns: rules::plain_columns(),
    ..Declaration::new(
        "authentication.k8s.io",
        &["v1"],
        "TokenReview",
        "tokenreviews",
        "tokenreview",
        Scope::Cluster,
    )
});

impl Kind for TokenReview {
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
            "kind": "TokenReview",
            "spec": {"token": "t0ken", "audiences": ["api"]},
        });
        crate::samples::Samples {
            valid: vec![review],
            invalid: Vec::new(),
            updates: Vec::new(),
            invalid_updates: Vec::new(),
        }
    }
}
