//! Tolerations of pods.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::check;
use crate::view;

/// Validates tolerations.
pub fn validate_tolerations(tolerations: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    for (index, toleration) in tolerations.iter().enumerate() {
        validate_one(toleration, &path.index(index), errors);
    }
}

fn validate_one(toleration: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let key = view::text(toleration, &["key"]);
    let operator = view::text(toleration, &["operator"]);
    let effect = view::text(toleration, &["effect"]);
    if !key.is_empty() {
        check::qualified_name(key, &path.child("key"), errors);
    } else if operator != "Exists" {
        let message =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(&path.child("operator"), BadValue::named(operator), message));
    }
    if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
        let message = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(&path.child("effect"), BadValue::named(effect), message));
    }
    value(operator, view::text(toleration, &["value"]), &path.child("operator"), errors);
    if !effect.is_empty() {
        let effects = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
        check::supported(effect, effects, &path.child("effect"), errors);
    }
}

fn value(operator: &str, value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    match operator {
        "Equal" | "" => {
            let messages = name::label_value(value);
            if !messages.is_empty() {
                errors.push(FieldError::invalid(path, value, messages.join(";")));
            }
        }
        "Exists" => {
            if !value.is_empty() {
                let message = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(path, value, message));
            }
        }
        // Operators of a feature gate that is off; the message lists them nevertheless.
        "Lt" | "Gt" => {
            let allowed = &["Equal", "Exists", "Lt", "Gt"];
            errors.push(FieldError::not_supported(path, BadValue::named(operator), allowed));
        }
        _ => check::supported(operator, &["Equal", "Exists"], path, errors),
    }
}
