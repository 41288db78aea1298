//! Pod failure policy of Jobs: actions by exit code or pod condition.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use crate::kinds::apps::checks::default_text;
use crate::kinds::rules;
use crate::view;

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_CONDITIONS: usize = 20;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// Sets the defaults of the policy of a Job's spec.
pub(super) fn set_defaults(spec: &mut Value) {
    let rules = spec.pointer_mut("/podFailurePolicy/rules").and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        let patterns = rule.get_mut("onPodConditions").and_then(Value::as_array_mut);
        for pattern in patterns.into_iter().flatten() {
            default_text(pattern, "status", "True");
        }
    }
}

/// Validates the policy of a Job's spec.
pub(super) fn validate(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(policy) = spec.get("podFailurePolicy") else { return };
    let path = path.child("podFailurePolicy.rules");
    let rules = view::items(policy, &["rules"]);
    if rules.len() > MAX_RULES {
        errors.push(FieldError::too_many(&path, rules.len(), MAX_RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        validate_rule(rule, spec, &path.index(index), errors);
    }
}

fn validate_rule(rule: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let action = view::text(rule, &["action"]);
    let action_path = path.child("action");
    if action == "FailIndex" && spec.get("backoffLimitPerIndex").is_none() {
        let detail = "requires the backoffLimitPerIndex to be set";
        errors.push(FieldError::invalid(&action_path, BadValue::named(action), detail));
    }
    validate_choice(action, &ACTIONS, &action_path, errors);
    let exit_codes = rule.get("onExitCodes");
    if let Some(requirement) = exit_codes {
        validate_exit_codes(requirement, spec, &path.child("onExitCodes"), errors);
    }
    let conditions = view::items(rule, &["onPodConditions"]);
    validate_conditions(conditions, &path.child("onPodConditions"), errors);
    let detail = match (exit_codes.is_some(), !conditions.is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        (true, false) | (false, true) => return,
    };
    errors.push(FieldError::invalid(path, BadValue::Omitted, detail));
}

/// Requires one of several values.
fn validate_choice(value: &str, allowed: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    if value.is_empty() {
        let allowed: Vec<_> = allowed.iter().map(|value| format!("\"{value}\"")).collect();
        errors.push(FieldError::required(path, format!("valid values: [{}]", allowed.join(" "))));
    } else {
        rules::one_of(path, value, allowed, errors);
    }
}

fn validate_conditions(patterns: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    if patterns.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(path, patterns.len(), MAX_CONDITIONS));
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let path = path.index(index);
        let condition = view::text(pattern, &["type"]);
        rules::each_message(&path.child("type"), condition, name::qualified_name(condition), errors);
        validate_choice(view::text(pattern, &["status"]), &STATUSES, &path.child("status"), errors);
    }
}

fn validate_exit_codes(requirement: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let operator = view::text(requirement, &["operator"]);
    validate_choice(operator, &OPERATORS, &path.child("operator"), errors);
    if let Some(container) = requirement.get("containerName").and_then(Value::as_str)
        && !has_container(spec, container)
    {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(&path.child("containerName"), container, detail));
    }
    let values = requirement.get("values").unwrap_or(&Value::Null);
    let path = path.child("values");
    let codes: Vec<_> = view::items(values, &[]).iter().filter_map(Value::as_i64).collect();
    if codes.is_empty() {
        errors.push(FieldError::invalid(&path, values, "at least one value is required"));
    } else if codes.len() > MAX_EXIT_CODES {
        errors.push(FieldError::too_many(&path, codes.len(), MAX_EXIT_CODES));
    }
    validate_each_code(&codes, operator, &path, errors);
    if !codes.is_sorted() {
        errors.push(FieldError::invalid(&path, values, "must be ordered"));
    }
}

fn validate_each_code(codes: &[i64], operator: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, code) in codes.iter().enumerate() {
        let path = path.index(index);
        if operator == "In" && *code == 0 {
            errors.push(FieldError::invalid(&path, *code, "must not be 0 for the In operator"));
        }
        if !seen.insert(code) {
            errors.push(FieldError::duplicate(&path, *code));
        }
    }
}

fn has_container(spec: &Value, name: &str) -> bool {
    let containers =
        ["containers", "initContainers"].map(|field| view::items(spec, &["template", "spec", field]));
    containers.concat().iter().any(|container| view::text(container, &["name"]) == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(rule: Value) -> Vec<String> {
        let spec = json!({
            "podFailurePolicy": {"rules": [rule]},
            "template": {"spec": {"containers": [{"name": "main"}]}},
        });
        let mut errors = ErrorList::new();
        validate(&spec, &Path::root("spec"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn valid_rules_are_accepted() {
        let codes = json!({"containerName": "main", "operator": "In", "values": [1, 5]});
        assert!(check(json!({"action": "FailJob", "onExitCodes": codes})).is_empty());
        let conditions = json!([{"type": "DisruptionTarget", "status": "True"}]);
        assert!(check(json!({"action": "Ignore", "onPodConditions": conditions})).is_empty());
    }

    #[test]
    fn messages_equal_those_of_kube_apiserver() {
        assert_eq!(
            check(json!({})),
            [
                "spec.podFailurePolicy.rules[0].action: Required value: valid values: [\"Count\" \"FailIndex\" \
                 \"FailJob\" \"Ignore\"]",
                "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions \
                 is required",
            ]
        );
        let codes = json!({"containerName": "other", "operator": "In", "values": [3, 0, 3]});
        assert_eq!(
            check(json!({"action": "FailIndex", "onExitCodes": codes})),
            [
                "action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
                "onExitCodes.containerName: Invalid value: \"other\": must be one of the container or \
                 initContainer names in the pod template",
                "onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                "onExitCodes.values[2]: Duplicate value: 3",
                "onExitCodes.values: Invalid value: [3,0,3]: must be ordered",
            ]
            .map(|message| format!("spec.podFailurePolicy.rules[0].{message}"))
        );
    }
}
