//! ClusterRole: permissions in the whole cluster, or in each namespace in which it is bound.

use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::Value;

use super::{GROUP, policy_rule};
use crate::kind::{Declaration, Kind, NameRule, Scope};
use crate::kinds::core::label_selector;
use crate::kinds::rules;
use crate::view;

/// [`Kind`] of ClusterRole objects.
pub struct ClusterRole;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    names: NameRule::PathSegment,
    create_on_update: true,
    columns: rules::plain_columns(),
    storage_version_hash: "bYE5ZWDrJ44=".into(),
    ..Declaration::new(GROUP, &["v1"], "ClusterRole", "clusterroles", "clusterrole", Scope::Cluster)
});

impl Kind for ClusterRole {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        policy_rule::validate_all(object, Scope::Cluster, errors);
        if let Some(aggregation) = object.get("aggregationRule") {
            validate_aggregation(aggregation, errors);
        }
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        rules::plain_cells(object)
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

fn validate_aggregation(aggregation: &Value, errors: &mut ErrorList) {
    let path = Path::root("aggregationRule.clusterRoleSelectors");
    let selectors = view::items(aggregation, &["clusterRoleSelectors"]);
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(&path, detail));
    }
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        let before = errors.len();
        label_selector::validate(selector, &path, errors);
        if errors.len() > before {
            let nothing = BadValue::json(&Value::Null);
            errors.push(FieldError::invalid(&path, nothing, "invalid label selector."));
        }
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let with = |rules: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "system:viewer"},
            "rules": rules,
        })
    };
    let aggregating = |selectors: Value| {
        let mut role = with(json!([]));
        role["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
        role
    };
    let mut invalid = policy_rule::refused(with);
    invalid.extend([
        Refused::new(aggregating(json!([])), "aggregationRule.clusterRoleSelectors", "FieldValueRequired"),
        Refused::new(
            aggregating(json!([{"matchExpressions": [{"key": "a", "operator": "In"}]}])),
            "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].values",
            "FieldValueRequired",
        ),
    ]);
    Samples {
        valid: vec![
            with(json!([
                {"verbs": ["get"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/api/*"]},
            ])),
            aggregating(json!([{"matchLabels": {"rbac.example.com/aggregate": "true"}}])),
        ],
        invalid,
        updates: vec![json!({"rules": []})],
        invalid_updates: vec![Refused::new(
            json!({"rules": [{"verbs": ["get"], "apiGroups": [""]}]}),
            "rules[0].resources",
            "FieldValueRequired",
        )],
    }
}
