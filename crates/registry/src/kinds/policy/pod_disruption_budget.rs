//! PodDisruptionBudget: how many of a set of pods may be evicted at a time.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::time::Time;
use serde_json::{Value, json};

use crate::kind::{Column, Declaration, Generation, Kind, NameRule, Scope, Subresource, texts};
use crate::kinds::apps::{checks, int_or_percent};
use crate::kinds::core::label_selector;
use crate::kinds::{conditions, rules};
use crate::{internal_types, view};

/// [`Kind`] of PodDisruptionBudget objects.
pub struct PodDisruptionBudget;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    short_names: texts(&["pdb"]),
    subresources: vec![Subresource::status("PodDisruptionBudget")],
    // kube-apiserver does not validate the metadata of this kind beyond what all kinds share.
    names: NameRule::PathSegment,
    generation: Generation::Spec,
    prefixed_finalizers: false,
    checks_metadata_change_again: false,
    unconditional_update: false,
    columns: vec![
        Column::name(),
        Column::text("Min Available", "minimum number or percentage of available pods"),
        Column::text("Max Unavailable", "maximum number or percentage of unavailable pods"),
        Column::integer("Allowed Disruptions", "number of pods that may be evicted now"),
        Column::age(),
    ],
    storage_version_hash: "EVWiDmWqyJw=".into(),
    ..Declaration::new(
        "policy",
        &["v1"],
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "poddisruptionbudget",
        Scope::Namespaced,
    )
});

impl Kind for PodDisruptionBudget {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        let status =
            json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
        checks::set(object, "status", status);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
            let detail = "minAvailable and maxUnavailable cannot be both set";
            errors.push(FieldError::invalid(
                &path,
                internal_types::printed("@policy.PodDisruptionBudgetSpec", Some(spec)),
                detail,
            ));
        }
        for field in ["minAvailable", "maxUnavailable"] {
            if let Some(value) = spec.get(field) {
                int_or_percent::validate(value, &path.child(field), errors);
                int_or_percent::validate_at_most_100_percent(value, &path.child(field), errors);
            }
        }
        if let Some(selector) = spec.get("selector") {
            label_selector::validate(selector, &path.child("selector"), errors);
        }
        if let Some(policy) = spec.get("unhealthyPodEvictionPolicy").and_then(Value::as_str) {
            let path = path.child("unhealthyPodEvictionPolicy");
            rules::one_of(&path, policy, &["AlwaysAllow", "IfHealthyBudget"], errors);
        }
    }

    fn validate_status_update(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let path = Path::root("status");
        let status = new.get("status").unwrap_or(&Value::Null);
        conditions::check(view::items(status, &["conditions"]), &path.child("conditions"), errors);
        let counts = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
        checks::all_non_negative(status, &counts, &path, errors);
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        vec![
            view::name(object).into(),
            amount(object, "minAvailable").into(),
            amount(object, "maxUnavailable").into(),
            view::integer(object, &["status", "disruptionsAllowed"]).unwrap_or(0).into(),
            view::age(object, now),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        let valid = &self.samples().valid[0];
        vec![crate::samples::Stored::of(
            valid,
            &json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["no label"]}]}}}),
        )]
    }
}

fn amount(object: &Value, field: &str) -> String {
    match view::at(object, &["spec", field]) {
        None => "N/A".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(number) => number.to_string(),
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::samples::{Refused, Samples};

    let with = |spec: Value| {
        json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": spec,
        })
    };
    let refused = |spec: Value, field, reason| Refused::new(with(spec), field, reason);
    Samples {
        valid: vec![
            with(json!({
                "minAvailable": "50%",
                "selector": {"matchLabels": {"app": "web"}},
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            })),
            with(json!({"maxUnavailable": 1, "selector": {}})),
            with(json!({})),
        ],
        invalid: vec![
            refused(json!({"minAvailable": 1, "maxUnavailable": 1}), "spec", "FieldValueInvalid"),
            refused(json!({"minAvailable": -1}), "spec.minAvailable", "FieldValueInvalid"),
            refused(json!({"maxUnavailable": "101%"}), "spec.maxUnavailable", "FieldValueInvalid"),
            refused(json!({"maxUnavailable": "some"}), "spec.maxUnavailable", "FieldValueInvalid"),
            refused(
                json!({"selector": {"matchLabels": {"a": "-"}}}),
                "spec.selector.matchLabels",
                "FieldValueInvalid",
            ),
            refused(
                json!({"unhealthyPodEvictionPolicy": "Never"}),
                "spec.unhealthyPodEvictionPolicy",
                "FieldValueNotSupported",
            ),
        ],
        updates: vec![json!({"spec": {"minAvailable": 2}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"maxUnavailable": 1}}),
            "spec",
            "FieldValueInvalid",
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::errors_on_create;

    #[test]
    fn error_about_both_amounts_matches_kube_apiserver() {
        let object = json!({"spec": {"minAvailable": 1, "maxUnavailable": "10%"}});
        assert_eq!(
            errors_on_create(&PodDisruptionBudget, &object).to_string(),
            "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":null,\"MaxUnavailable\":\"10%\",\
             \"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set"
        );
    }

    #[test]
    fn table_row_shows_the_amounts_that_are_set() {
        let object = json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}});
        assert_eq!(PodDisruptionBudget.cells(&object, 0)[1..4], [json!("50%"), json!("N/A"), json!(2)]);
    }
}
