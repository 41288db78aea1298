//! Role: permissions in a namespace.

use std::sync::LazyLock;

use coracle_meta::field::ErrorList;
use serde_json::Value;

use super::{GROUP, policy_rule};
use crate::kind::{Declaration, Kind, NameRule, Scope};
use crate::kinds::rules;

/// [`Kind`] of Role objects.
pub struct Role;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    names: NameRule::PathSegment,
    create_on_update: true,
    columns: rules::plain_columns(),
    storage_version_hash: "7FuwZcIIItM=".into(),
    ..Declaration::new(GROUP, &["v1"], "Role", "roles", "role", Scope::Namespaced)
});

impl Kind for Role {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        policy_rule::validate_all(object, Scope::Namespaced, errors);
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

    use crate::samples::{Refused, Samples};

    let with = |rules: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "pod:reader", "namespace": "default"},
            "rules": rules,
        })
    };
    let mut invalid = policy_rule::refused(with);
    invalid.push(Refused::new(
        with(json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}])),
        "rules[0].nonResourceURLs",
        "FieldValueInvalid",
    ));
    Samples {
        valid: vec![
            with(json!([
                {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]},
                {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"], "resourceNames": ["web"]},
            ])),
            with(json!([])),
        ],
        invalid,
        updates: vec![json!({"rules": null})],
        invalid_updates: vec![Refused::new(
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"]}]}),
            "rules[0].verbs",
            "FieldValueRequired",
        )],
    }
}
