//! Rules: the operations and resources that a policy or webhook matches.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::Value;

use crate::kinds::rules;
use crate::view;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// Sets the default scope of rules: all.
pub(super) fn set_defaults(parent: &mut Value, field: &str) {
    for rule in parent.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
        view::set_default(rule, "scope", || "*".into());
    }
}

/// Validates a rule.
pub(super) fn check(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    check_list(rule, ("operations", "operations"), path, errors);
    let operations = view::items(rule, &["operations"]).iter().filter_map(Value::as_str);
    for (index, operation) in operations.enumerate() {
        rules::one_of(&path.child("operations").index(index), operation, &OPERATIONS, errors);
    }
    check_list(rule, ("apiGroups", "API groups"), path, errors);
    check_list(rule, ("apiVersions", "API versions"), path, errors);
    for (index, version) in view::items(rule, &["apiVersions"]).iter().enumerate() {
        let path = path.child("apiVersions");
        rules::required(&path.index(index), version.as_str().unwrap_or_default(), errors);
    }
    check_resources(view::items(rule, &["resources"]), &path.child("resources"), errors);
    if let Some(scope) = rule.get("scope").and_then(Value::as_str) {
        rules::one_of(&path.child("scope"), scope, &SCOPES, errors);
    }
}

/// Requires a non-empty list, in which a wildcard is the only item.
fn check_list(rule: &Value, (field, others): (&str, &str), path: &Path<'_>, errors: &mut ErrorList) {
    let (items, path) = (view::items(rule, &[field]), path.child(field));
    if items.is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    if items.len() > 1 && items.iter().any(|item| item == "*") {
        let detail = format!("if '*' is present, must not specify other {others}");
        errors.push(FieldError::invalid(&path, BadValue::json(&Value::Array(items.to_vec())), detail));
    }
}

/// Validates resources and subresources; wildcards must not overlap with other entries.
fn check_resources(resources: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    if resources.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut all_subresources, mut all_resources) = (BTreeSet::new(), BTreeSet::new());
    let mut last_is_plain = false;
    for (index, resource) in resources.iter().filter_map(Value::as_str).enumerate() {
        let path = path.index(index);
        if !rules::required(&path, resource, errors) {
            continue;
        }
        let Some((parent, child)) = resource.split_once('/') else {
            // kube-apiserver remembers only the last one.
            last_is_plain = resource != "*";
            continue;
        };
        let mut covered = |by: String| {
            let detail = format!("if '{by}' is present, must not specify {resource}");
            errors.push(FieldError::invalid(&path, resource, detail));
        };
        if all_subresources.contains(parent) {
            covered(format!("{parent}/*"));
        }
        if all_resources.contains(child) {
            covered(format!("*/{child}"));
        }
        if child == "*" {
            all_subresources.insert(parent);
        }
        if parent == "*" {
            all_resources.insert(child);
        }
    }
    let has = |wanted: &str| resources.iter().any(|resource| resource == wanted);
    let mut invalid = |detail: &str| {
        errors.push(FieldError::invalid(path, BadValue::json(&Value::Array(resources.to_vec())), detail));
    };
    if resources.len() > 1 && has("*/*") {
        invalid("if '*/*' is present, must not specify other resources");
    }
    if has("*") && last_is_plain {
        invalid("if '*' is present, must not specify other resources without subresources");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn count(resources: Value) -> usize {
        let mut errors = ErrorList::default();
        check_resources(resources.as_array().unwrap(), &Path::root("r"), &mut errors);
        errors.len()
    }

    #[test]
    fn overlapping_wildcards_are_rejected() {
        assert_eq!(count(json!(["pods", "pods/status", "*/scale"])), 0);
        assert_eq!(count(json!([])), 1);
        assert_eq!(count(json!([""])), 1);
        assert_eq!(count(json!(["a/*", "a/x"])), 1);
        assert_eq!(count(json!(["*/x", "a/x"])), 1);
        assert_eq!(count(json!(["*/*", "a"])), 1);
        assert_eq!(count(json!(["*", "a"])), 1);
        assert_eq!(count(json!(["*", "a/x"])), 0);
    }
}
