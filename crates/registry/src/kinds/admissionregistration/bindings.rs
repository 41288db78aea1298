//! Shared parts of ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::match_resources;
use crate::kinds::rules;
use crate::view;

/// Sets the defaults of a binding.
pub(super) fn set_defaults(object: &mut Value) {
    match_resources::set_defaults(object, "/spec/matchResources");
}

/// Validates policy name, parameter reference and match resources.
pub(super) fn check(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let policy = view::text(object, &["spec", "policyName"]);
    rules::required_name(&path.child("policyName"), policy, name::dns1123_subdomain, errors);
    if let Some(reference) = view::at(object, &["spec", "paramRef"]) {
        check_param_ref(reference, &path.child("paramRef"), errors);
    }
    if let Some(matcher) = view::at(object, &["spec", "matchResources"]) {
        match_resources::check(matcher, &path.child("matchResources"), errors);
    }
}

/// Table cells: name, policy and parameters.
pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let reference = view::at(object, &["spec", "paramRef"]).map(param_ref_text);
    vec![
        view::name(object).into(),
        view::text(object, &["spec", "policyName"]).into(),
        reference.unwrap_or_else(|| "<unset>".to_owned()).into(),
        view::age(object, now),
    ]
}

fn param_ref_text(reference: &Value) -> String {
    match (view::text(reference, &["name"]), view::text(reference, &["namespace"])) {
        ("", _) => reference.get("selector").map_or_else(|| "<unset>".to_owned(), selector_text),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    }
}

/// A label selector as Go prints it.
fn selector_text(selector: &Value) -> String {
    let labels: String = view::fields(selector, &["matchLabels"])
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let expressions: String = view::items(selector, &["matchExpressions"])
        .iter()
        .map(|expression| {
            let values = view::items(expression, &["values"]).iter().filter_map(Value::as_str);
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                view::text(expression, &["key"]),
                view::text(expression, &["operator"]),
                values.collect::<Vec<_>>().join(" "),
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn check_param_ref(reference: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (object, selector) = (view::text(reference, &["name"]), reference.get("selector"));
    let exclusive = "name and selector are mutually exclusive";
    if !object.is_empty() {
        rules::each_message(&path.child("name"), object, name::path_segment_name(object), errors);
        if selector.is_some() {
            errors.push(FieldError::forbidden(&path.child("name"), exclusive));
        }
    }
    if selector.is_some() {
        rules::label_selector(&path.child("selector"), selector, errors);
        if !object.is_empty() {
            errors.push(FieldError::forbidden(&path.child("selector"), exclusive));
        }
    } else if object.is_empty() {
        errors.push(FieldError::required(path, "one of name or selector must be specified"));
    }
    let (action, path) =
        (view::text(reference, &["parameterNotFoundAction"]), path.child("parameterNotFoundAction"));
    if rules::required(&path, action, errors) {
        rules::one_of(&path, action, &["Deny", "Allow"], errors);
    }
}

/// Invalid samples of both kinds.
#[cfg(any(test, feature = "samples"))]
pub(super) fn invalid_samples(valid: &Value) -> Vec<crate::samples::Refused> {
    use serde_json::json;

    use crate::kinds::sample::with;
    use crate::samples::Refused;

    let refused = |pointer: &str, value, field, reason| {
        Refused::new(with(valid, &format!("/spec/{pointer}"), value), field, reason)
    };
    let action = "Deny";
    let both = json!({"name": "a", "selector": {}, "parameterNotFoundAction": action});
    vec![
        refused("policyName", json!(""), "spec.policyName", "FieldValueRequired"),
        refused("policyName", json!("A"), "spec.policyName", "FieldValueInvalid"),
        refused(
            "paramRef",
            json!({"parameterNotFoundAction": action}),
            "spec.paramRef",
            "FieldValueRequired",
        ),
        refused("paramRef", both, "spec.paramRef.name", "FieldValueForbidden"),
        refused(
            "paramRef",
            json!({"name": "a"}),
            "spec.paramRef.parameterNotFoundAction",
            "FieldValueRequired",
        ),
        refused(
            "paramRef",
            json!({"name": "a", "parameterNotFoundAction": "Wait"}),
            "spec.paramRef.parameterNotFoundAction",
            "FieldValueNotSupported",
        ),
        refused(
            "matchResources",
            json!({"resourceRules": [{"operations": ["CREATE"]}]}),
            "spec.matchResources.resourceRules[0].resources",
            "FieldValueRequired",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cell_of_parameters_has_name_or_selector() {
        assert_eq!(param_ref_text(&json!({"name": "a"})), "*/a");
        assert_eq!(param_ref_text(&json!({"name": "a", "namespace": "b"})), "b/a");
        let expression = json!({"key": "x", "operator": "In", "values": ["y", "z"]});
        let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [expression]});
        assert_eq!(
            param_ref_text(&json!({"selector": selector})),
            "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement\
             {LabelSelectorRequirement{Key:x,Operator:In,Values:[y z],},},}"
        );
    }
}
