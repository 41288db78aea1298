//! Tolerations that a runtime class adds to its pods.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use crate::kinds::rules;
use crate::{internal_types, view};

/// Validates tolerations, which must be unique.
pub(super) fn check(tolerations: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    for (index, toleration) in tolerations.iter().enumerate() {
        check_one(toleration, &path.index(index), errors);
    }
    for (index, toleration) in tolerations.iter().enumerate() {
        let earlier = &tolerations[..index];
        if earlier.iter().any(|earlier| identity(earlier) == identity(toleration)) {
            errors.push(FieldError::duplicate(
                &path.index(index),
                internal_types::printed("@core.Toleration", Some(toleration)),
            ));
        }
    }
}

/// The fields that identify a toleration.
fn identity(toleration: &Value) -> [&str; 4] {
    ["key", "operator", "value", "effect"].map(|field| view::text(toleration, &[field]))
}

fn check_one(toleration: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let [key, operator, _, effect] = identity(toleration);
    if !key.is_empty() {
        rules::each_message(&path.child("key"), key, name::qualified_name(key), errors);
    } else if operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(&path.child("operator"), BadValue::named(operator), detail));
    }
    if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(&path.child("effect"), BadValue::named(effect), detail));
    }
    check_operator(toleration, &path.child("operator"), errors);
    if !effect.is_empty() {
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        rules::one_of(&path.child("effect"), effect, &effects, errors);
    }
}

fn check_operator(toleration: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let [_, operator, value, _] = identity(toleration);
    match operator {
        "" | "Equal" => {
            let messages = name::label_value(value);
            if !messages.is_empty() {
                errors.push(FieldError::invalid(path, value, messages.join(";")));
            }
        }
        "Exists" if value.is_empty() => {}
        "Exists" => {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(path, value, detail));
        }
        // Supported for pods, but not here; the message lists them nevertheless.
        "Lt" | "Gt" => {
            let listed = ["Equal", "Exists", "Lt", "Gt"];
            errors.push(FieldError::not_supported(path, BadValue::named(operator), &listed));
        }
        _ => {
            rules::one_of(path, operator, &["Equal", "Exists"], errors);
        }
    }
}
