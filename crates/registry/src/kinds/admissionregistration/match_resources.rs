//! Match resources, match policy, selectors and match conditions of policies and webhooks.

use std::collections::BTreeSet;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::{Value, json};

use super::operation_rules;
use super::policies::check_expression;
use crate::kinds::ratchet;
use crate::kinds::rules;
use crate::view;
use coracle_cel::policy::{PolicyExpressions, Role};

/// Maximum number of match conditions, as in Kubernetes.
const MAX_CONDITIONS: usize = 64;

/// Sets the defaults of match policy and selectors.
pub(super) fn set_matching_defaults(matcher: &mut Value) {
    view::set_default(matcher, "matchPolicy", || "Equivalent".into());
    view::set_default(matcher, "namespaceSelector", || json!({}));
    view::set_default(matcher, "objectSelector", || json!({}));
}

/// Sets the same defaults and the scope of rules for the matcher at a pointer, if there is one.
pub(super) fn set_defaults(object: &mut Value, pointer: &str) {
    if let Some(matcher) = object.pointer_mut(pointer) {
        set_matching_defaults(matcher);
        operation_rules::set_defaults(matcher, "resourceRules");
        operation_rules::set_defaults(matcher, "excludeResourceRules");
    }
}

/// Validates the match policy.
pub(super) fn check_policy(matcher: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let policy = view::text(matcher, &["matchPolicy"]);
    rules::one_of(&path.child("matchPolicy"), policy, &["Equivalent", "Exact"], errors);
}

/// Validates namespace and object selectors.
pub(super) fn check_selectors(matcher: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["namespaceSelector", "objectSelector"] {
        rules::label_selector(&path.child(field), matcher.get(field), errors);
    }
}

/// Validates match resources.
pub(super) fn check(matcher: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    check_policy(matcher, path, errors);
    check_selectors(matcher, path, errors);
    for field in ["resourceRules", "excludeResourceRules"] {
        let path = path.child(field);
        for (index, rule) in view::items(matcher, &[field]).iter().enumerate() {
            let path = path.index(index);
            check_resource_names(rule, &path.child("resourceNames"), errors);
            operation_rules::check(rule, &path, errors);
        }
    }
}

/// Rejects DELETE in rules of mutating policies: a deleted object cannot be changed.
pub(super) fn check_mutable_operations(matcher: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("resourceRules.operations");
    for rule in view::items(matcher, &["resourceRules"]) {
        for operation in view::items(rule, &["operations"]).iter().filter_map(Value::as_str) {
            rules::one_of(&path, operation, &["*", "CONNECT", "CREATE", "UPDATE"], errors);
        }
    }
}

/// Validates match conditions.
pub(super) fn check_conditions(
    conditions: &[Value],
    expressions: &PolicyExpressions,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    errors.ratcheted(ratchet::MATCH_CONDITIONS, |errors| {
        check_each_condition(conditions, expressions, path, errors);
    });
}

fn check_each_condition(
    conditions: &[Value],
    expressions: &PolicyExpressions,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if conditions.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(path, conditions.len(), MAX_CONDITIONS));
    }
    let mut seen = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let expression = view::text(condition, &["expression"]).trim();
        check_expression(expression, Role::Condition, expressions, "", &path.child("expression"), errors);
        let (condition_name, path) = (view::text(condition, &["name"]), path.child("name"));
        rules::required_name(&path, condition_name, name::qualified_name, errors);
        if !condition_name.is_empty() && !seen.insert(condition_name) {
            errors.push(FieldError::duplicate(&path, condition_name));
        }
    }
}

fn check_resource_names(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, resource) in
        view::items(rule, &["resourceNames"]).iter().filter_map(Value::as_str).enumerate()
    {
        let path = path.index(index);
        rules::each_message(&path, resource, name::path_segment_name(resource), errors);
        if !seen.insert(resource) {
            errors.push(FieldError::duplicate(&path, resource));
        }
    }
}
