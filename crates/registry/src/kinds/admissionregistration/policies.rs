//! Shared parts of ValidatingAdmissionPolicy and MutatingAdmissionPolicy.

use coracle_cel::Checked;
use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::gvk::split_api_version;
use coracle_meta::name;
use serde_json::{Value, json};

use super::match_resources;
use crate::kinds::rules;
use crate::view;
use coracle_cel::policy::{PolicyExpressions, Role};

/// Sets the defaults of a policy.
pub(super) fn set_defaults(object: &mut Value) {
    view::set_default(object, "spec", || json!({}));
    if let Some(spec) = object.get_mut("spec") {
        view::set_default(spec, "failurePolicy", || "Fail".into());
    }
    match_resources::set_defaults(object, "/spec/matchConstraints");
}

/// Validates the common fields. Returns the names that the remaining expressions may use.
pub(super) fn check(
    object: &Value,
    is_mutating: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> PolicyExpressions {
    let failure = view::text(object, &["spec", "failurePolicy"]);
    rules::one_of(&path.child("failurePolicy"), failure, &["Fail", "Ignore"], errors);
    let param_kind = view::at(object, &["spec", "paramKind"]);
    if let Some(kind) = param_kind {
        check_param_kind(kind, &path.child("paramKind"), errors);
    }
    let mut expressions = PolicyExpressions::new(param_kind.is_some());
    check_constraints(object, &path.child("matchConstraints"), errors);
    if is_mutating && let Some(constraints) = view::at(object, &["spec", "matchConstraints"]) {
        match_resources::check_mutable_operations(constraints, &path.child("matchConstraints"), errors);
    }
    let conditions = view::items(object, &["spec", "matchConditions"]);
    match_resources::check_conditions(conditions, &expressions, &path.child("matchConditions"), errors);
    let variables_path = path.child("variables");
    let variables = view::items(object, &["spec", "variables"]);
    if !variables.is_empty() {
        expressions.declare_variables();
    }
    for (index, variable) in variables.iter().enumerate() {
        check_variable(variable, &mut expressions, &variables_path.index(index), errors);
    }
    expressions
}

/// Table cell with the kind of parameters.
pub(super) fn param_kind_cell(object: &Value) -> Value {
    let kind = view::at(object, &["spec", "paramKind"]);
    kind.map_or_else(
        || "<unset>".into(),
        |kind| format!("{}/{}", view::text(kind, &["apiVersion"]), view::text(kind, &["kind"])).into(),
    )
}

/// Requires a valid CEL expression. Returns the checked expression.
pub(super) fn check_expression(
    expression: &str,
    role: Role,
    expressions: &PolicyExpressions,
    missing: &str,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<Checked> {
    if expression.trim().is_empty() {
        errors.push(FieldError::required(path, missing));
        return None;
    }
    match expressions.check(expression, role) {
        Ok(checked) => Some(checked),
        Err(detail) => {
            errors.push(FieldError::invalid(path, expression, detail));
            None
        }
    }
}

fn check_constraints(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(constraints) = view::at(object, &["spec", "matchConstraints"]) else {
        errors.push(FieldError::required(path, ""));
        return;
    };
    match_resources::check(constraints, path, errors);
    // The type checker needs the matched resources.
    if view::items(constraints, &["resourceRules"]).is_empty() {
        errors.push(FieldError::required(&path.child("resourceRules"), ""));
    }
}

fn check_param_kind(param_kind: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    check_api_version(view::text(param_kind, &["apiVersion"]), &path.child("apiVersion"), errors);
    let (kind, path) = (view::text(param_kind, &["kind"]), path.child("kind"));
    if rules::required(&path, kind, errors) {
        let messages = name::dns1035_label(&kind.to_lowercase());
        if !messages.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", messages.join(","));
            errors.push(FieldError::invalid(&path, kind, detail));
        }
    }
}

fn check_api_version(api_version: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if !rules::required(path, api_version, errors) {
        return;
    }
    if api_version.matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {api_version}");
        errors.push(FieldError::invalid(path, api_version, detail));
        return;
    }
    let (group, version) = split_api_version(api_version);
    let group_messages = name::dns1123_subdomain(group);
    if !group.is_empty() && !group_messages.is_empty() {
        errors.push(FieldError::invalid(path, group, group_messages.join(",")));
    }
    let version_messages = name::dns1035_label(version);
    if version.is_empty() {
        errors.push(FieldError::invalid(path, api_version, "version must be specified"));
    } else if !version_messages.is_empty() {
        errors.push(FieldError::invalid(path, version, version_messages.join(",")));
    }
}

fn check_variable(
    variable: &Value,
    expressions: &mut PolicyExpressions,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (variable_name, name_path) = (view::text(variable, &["name"]), path.child("name"));
    if variable_name.trim().is_empty() {
        errors.push(FieldError::required(&name_path, "name is not specified"));
    } else if !coracle_cel::is_identifier(variable_name) {
        errors.push(FieldError::invalid(&name_path, variable_name, "must be a valid CEL identifier"));
    }
    let (expression, missing) = (view::text(variable, &["expression"]), "expression is not specified");
    let path = path.child("expression");
    let checked = check_expression(expression, Role::Variable, expressions, missing, &path, errors);
    // Without an expression the variable has no type, so others cannot use it.
    if !expression.trim().is_empty() {
        expressions.name(variable_name, checked.as_ref().map(Checked::output_type));
    }
}

/// Match constraints of the samples.
#[cfg(any(test, feature = "samples"))]
pub(super) fn sample_constraints() -> Value {
    json!({"resourceRules": [{
        "operations": ["CREATE", "UPDATE"],
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "resources": ["deployments"],
    }]})
}

/// Invalid samples of both kinds.
#[cfg(any(test, feature = "samples"))]
pub(super) fn invalid_samples(valid: &Value) -> Vec<crate::samples::Refused> {
    use crate::kinds::sample::with;
    use crate::samples::Refused;

    let refused = |pointer: &str, value, field, reason| {
        Refused::new(with(valid, &format!("/spec/{pointer}"), value), field, reason)
    };
    let variable = |name: &str, expression: &str| json!([{"name": name, "expression": expression}]);
    vec![
        refused("failurePolicy", json!("Hide"), "spec.failurePolicy", "FieldValueNotSupported"),
        refused("paramKind", json!({"kind": "A"}), "spec.paramKind.apiVersion", "FieldValueRequired"),
        refused(
            "paramKind",
            json!({"apiVersion": "a/b/c", "kind": "A"}),
            "spec.paramKind.apiVersion",
            "FieldValueInvalid",
        ),
        refused(
            "paramKind",
            json!({"apiVersion": "v1", "kind": "A b"}),
            "spec.paramKind.kind",
            "FieldValueInvalid",
        ),
        refused("matchConstraints", Value::Null, "spec.matchConstraints", "FieldValueRequired"),
        refused("matchConstraints", json!({}), "spec.matchConstraints.resourceRules", "FieldValueRequired"),
        refused(
            "matchConstraints/resourceRules/0/resourceNames",
            json!(["a", "a"]),
            "spec.matchConstraints.resourceRules[0].resourceNames[1]",
            "FieldValueDuplicate",
        ),
        refused(
            "matchConditions",
            json!([{"name": "a"}]),
            "spec.matchConditions[0].expression",
            "FieldValueRequired",
        ),
        refused("variables", variable("", "1"), "spec.variables[0].name", "FieldValueRequired"),
        refused("variables", variable("in", "1"), "spec.variables[0].name", "FieldValueInvalid"),
        refused("variables", variable("a", " "), "spec.variables[0].expression", "FieldValueRequired"),
        refused("variables", variable("a", "1 +"), "spec.variables[0].expression", "FieldValueInvalid"),
        refused(
            "matchConditions",
            json!([{"name": "a", "expression": "1"}]),
            "spec.matchConditions[0].expression",
            "FieldValueInvalid",
        ),
    ]
}
