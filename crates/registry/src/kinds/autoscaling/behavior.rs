//! Scaling behavior of an autoscaler: policies and stabilization windows.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::quantity::Quantity;
use serde_json::{Value, json};

use crate::kinds::rules;
use crate::view;

const MAX_PERIOD_SECONDS: i64 = 1800;
const MAX_STABILIZATION_WINDOW_SECONDS: i64 = 3600;

/// Sets the defaults of both directions.
pub(super) fn set_defaults(behavior: &mut Value) {
    let up = json!({
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
    });
    // The default stabilization window for scaling down is a setting of the controller.
    let down = json!({
        "selectPolicy": "Max",
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
    });
    for (direction, mut rules) in [("scaleUp", up), ("scaleDown", down)] {
        let Value::Object(behavior) = behavior else { return };
        if let (Some(Value::Object(own)), Value::Object(rules)) = (behavior.get(direction), &mut rules) {
            rules.extend(own.clone());
        }
        behavior.insert(direction.to_owned(), rules);
    }
}

/// Validates a behavior.
pub(super) fn validate(behavior: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = behavior.get(direction) {
            validate_rules(rules, &path.child(direction), errors);
        }
    }
}

fn validate_rules(rules: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(window) = view::integer(rules, &["stabilizationWindowSeconds"]) {
        let path = path.child("stabilizationWindowSeconds");
        if window < 0 {
            errors.push(FieldError::invalid(&path, window, "must be greater than or equal to zero"));
        }
        validate_at_most(window, MAX_STABILIZATION_WINDOW_SECONDS, &path, errors);
    }
    if let Some(select) = rules.get("selectPolicy").and_then(Value::as_str) {
        rules::one_of(&path.child("selectPolicy"), select, &["Disabled", "Max", "Min"], errors);
    }
    let policies = view::items(rules, &["policies"]);
    let policies_path = path.child("policies");
    if policies.is_empty() {
        errors.push(FieldError::required(&policies_path, "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        validate_policy(policy, &policies_path.index(index), errors);
    }
    if let Some(tolerance) = rules.get("tolerance")
        && let Some(tolerance) = Quantity::from_json(tolerance).ok().filter(|amount| amount.sign() < 0)
    {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("tolerance"), tolerance.canonical(), detail));
    }
}

fn validate_policy(policy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let policy_type = view::text(policy, &["type"]);
    rules::one_of(&path.child("type"), policy_type, &["Percent", "Pods"], errors);
    for field in ["value", "periodSeconds"] {
        let found = view::integer(policy, &[field]).unwrap_or(0);
        if found <= 0 {
            errors.push(FieldError::invalid(&path.child(field), found, "must be greater than zero"));
        }
    }
    let period = view::integer(policy, &["periodSeconds"]).unwrap_or(0);
    validate_at_most(period, MAX_PERIOD_SECONDS, &path.child("periodSeconds"), errors);
}

fn validate_at_most(found: i64, max: i64, path: &Path<'_>, errors: &mut ErrorList) {
    if found > max {
        let detail = format!("must be less than or equal to {max}");
        errors.push(FieldError::invalid(path, BadValue::Int(found), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_direction_gets_defaults_for_the_other() {
        let mut behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 5, "policies": []}});
        set_defaults(&mut behavior);
        assert_eq!(behavior["scaleUp"]["policies"][0]["value"], 4);
        assert_eq!(
            behavior["scaleDown"],
            json!({"stabilizationWindowSeconds": 5, "selectPolicy": "Max", "policies": []})
        );
    }

    #[test]
    fn rules_out_of_range_are_rejected() {
        let behavior = json!({"scaleUp": {
            "stabilizationWindowSeconds": 3601,
            "selectPolicy": "Any",
            "tolerance": "-1",
            "policies": [{"type": "Some", "value": 0, "periodSeconds": 1801}],
        }});
        let mut errors = ErrorList::new();
        validate(&behavior, &Path::root("b"), &mut errors);
        let shown: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
                "selectPolicy: Unsupported value: \"Any\": supported values: \"Disabled\", \"Max\", \"Min\"",
                "policies[0].type: Unsupported value: \"Some\": supported values: \"Percent\", \"Pods\"",
                "policies[0].value: Invalid value: 0: must be greater than zero",
                "policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
                "tolerance: Invalid value: \"-1\": must be greater than or equal to 0",
            ]
            .map(|message| format!("b.scaleUp.{message}"))
        );
    }
}
