//! Validation of conditions of type `metav1.Condition`.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::rules;
use crate::view;

/// Maximum length of a reason, as in Kubernetes.
const MAX_REASON_BYTES: usize = 1024;

/// Maximum length of a message, as in Kubernetes.
const MAX_MESSAGE_BYTES: usize = 32 * 1024;

/// Validates conditions: each is well formed, and there is one for each type.
pub(crate) fn check(conditions: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let condition_type = view::text(condition, &["type"]);
        if !seen.insert(condition_type) {
            errors.push(FieldError::duplicate(&path.child("type"), condition_type));
        }
        check_one(condition, &path, errors);
    }
}

fn check_one(condition: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let condition_type = view::text(condition, &["type"]);
    rules::each_message(&path.child("type"), condition_type, name::qualified_name(condition_type), errors);
    let status = view::text(condition, &["status"]);
    rules::one_of(&path.child("status"), status, &["False", "True", "Unknown"], errors);
    let generation = view::integer(condition, &["observedGeneration"]);
    if let Some(generation) = generation.filter(|generation| *generation < 0) {
        let path = path.child("observedGeneration");
        errors.push(FieldError::invalid(&path, generation, "must be greater than or equal to zero"));
    }
    let since = view::text(condition, &["lastTransitionTime"]);
    rules::required(&path.child("lastTransitionTime"), since, errors);
    check_reason(view::text(condition, &["reason"]), &path.child("reason"), errors);
    if view::text(condition, &["message"]).len() > MAX_MESSAGE_BYTES {
        errors.push(FieldError::too_long(&path.child("message"), MAX_MESSAGE_BYTES));
    }
}

fn check_reason(reason: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if !rules::required(path, reason, errors) {
        return;
    }
    if !is_reason(reason) {
        let form = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
        let detail = format!(
            "a condition reason must start with alphabetic character, optionally followed by a string of \
             alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. \
             'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used \
             for validation is '{form}')"
        );
        errors.push(FieldError::invalid(path, BadValue::from(reason), detail));
    }
    if reason.len() > MAX_REASON_BYTES {
        errors.push(FieldError::too_long(path, MAX_REASON_BYTES));
    }
}

fn is_reason(reason: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = reason.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|last| word(*last))
        && bytes.iter().all(|byte| word(*byte) || b",:".contains(byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn incomplete_and_duplicate_conditions_are_rejected() {
        let good = json!({"type": "Ready", "status": "True", "reason": "Fine", "lastTransitionTime": "2026-01-02T03:04:05Z"});
        let mut errors = ErrorList::default();
        check(std::slice::from_ref(&good), &Path::root("c"), &mut errors);
        assert!(errors.is_empty());
        check(&[good.clone(), good], &Path::root("c"), &mut errors);
        assert_eq!(errors.to_string(), "c[1].type: Duplicate value: \"Ready\"");
        let mut errors = ErrorList::default();
        check(
            &[json!({"status": "Maybe", "reason": "1", "observedGeneration": -1})],
            &Path::root("c"),
            &mut errors,
        );
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        let expected = ["type", "type", "status", "observedGeneration", "lastTransitionTime", "reason"];
        assert_eq!(fields, expected.map(|field| format!("c[0].{field}")));
    }
}
