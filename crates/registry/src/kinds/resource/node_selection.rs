//! Fields that select the nodes on which devices can be used.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::naming;
use crate::kinds::rules;
use crate::view;

/// Validates a node selector, of which one term must match.
pub(super) fn check_node_selector(selector: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (terms, path) = (view::items(selector, &["nodeSelectorTerms"]), path.child("nodeSelectorTerms"));
    if terms.is_empty() {
        errors.push(FieldError::required(&path, "must have at least one node selector term"));
    }
    for (index, term) in terms.iter().enumerate() {
        let path = path.index(index);
        let expressions = path.child("matchExpressions");
        for (index, requirement) in view::items(term, &["matchExpressions"]).iter().enumerate() {
            check_label_requirement(requirement, &expressions.index(index), errors);
        }
        let fields = path.child("matchFields");
        for (index, requirement) in view::items(term, &["matchFields"]).iter().enumerate() {
            check_field_requirement(requirement, &fields.index(index), errors);
        }
    }
}

fn check_label_requirement(requirement: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (values, values_path) = (view::items(requirement, &["values"]), path.child("values"));
    match view::text(requirement, &["operator"]) {
        "In" | "NotIn" => {
            if values.is_empty() {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(&values_path, detail));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(&values_path, detail));
            }
        }
        "Gt" | "Lt" => {
            if values.len() != 1 {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.push(FieldError::required(&values_path, detail));
            }
        }
        operator => errors.push(unknown_operator(operator, path)),
    }
    naming::label_name(&path.child("key"), view::text(requirement, &["key"]), errors);
    for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
        rules::each_message(&values_path.index(index), value, name::label_value(value), errors);
    }
}

fn check_field_requirement(requirement: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (values, values_path) = (view::items(requirement, &["values"]), path.child("values"));
    match view::text(requirement, &["operator"]) {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(&values_path, detail));
        }
        operator => errors.push(unknown_operator(operator, path)),
    }
    let key = view::text(requirement, &["key"]);
    if key != "metadata.name" {
        errors.push(FieldError::invalid(&path.child("key"), key, "not a valid field selector key"));
        return;
    }
    for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
        rules::each_message(&values_path.index(index), value, name::dns1123_subdomain(value), errors);
    }
}

fn unknown_operator(operator: &str, path: &Path<'_>) -> FieldError {
    FieldError::invalid(&path.child("operator"), BadValue::named(operator), "not a valid selector operator")
}

/// Returns which of the given fields select nodes, and validates those that do.
pub(super) fn used_selection_fields(
    owner: &Value,
    selection_fields: &[&'static str],
    empty_name: &str,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Vec<String> {
    let mut used = Vec::new();
    for field in selection_fields {
        let path = path.child(field);
        let ok = match owner.get(field) {
            None => continue,
            Some(Value::String(node)) if node.is_empty() => {
                errors.push(FieldError::invalid(&path, "", empty_name));
                false
            }
            Some(Value::String(node)) => {
                rules::each_message(&path, node, name::dns1123_subdomain(node), errors);
                true
            }
            Some(Value::Bool(false)) => {
                errors.push(FieldError::invalid(&path, false, "must be either unset or set to true"));
                false
            }
            Some(Value::Bool(true)) => true,
            Some(selector) => {
                check_node_selector(selector, &path, errors);
                true
            }
        };
        used.extend(ok.then(|| format!("`{field}`")));
    }
    used
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(term: Value) -> Vec<String> {
        let mut errors = ErrorList::default();
        check_node_selector(&json!({"nodeSelectorTerms": [term]}), &Path::root("s"), &mut errors);
        errors.iter().map(|error| error.field.clone()).collect()
    }

    #[test]
    fn requirement_values_must_fit_the_operator() {
        let expression = |operator: &str, values: Value| {
            fields(json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]}))
        };
        assert!(expression("In", json!(["x"])).is_empty());
        assert!(expression("Gt", json!(["1"])).is_empty());
        let values = ["s.nodeSelectorTerms[0].matchExpressions[0].values"];
        assert_eq!(expression("NotIn", json!([])), values);
        assert_eq!(expression("Exists", json!(["x"])), values);
        assert_eq!(expression("Lt", json!([])), values);
        assert_eq!(expression("Like", json!([])), ["s.nodeSelectorTerms[0].matchExpressions[0].operator"]);
    }

    #[test]
    fn metadata_name_is_the_only_selectable_field() {
        let field =
            |key: &str| fields(json!({"matchFields": [{"key": key, "operator": "In", "values": ["n"]}]}));
        assert!(field("metadata.name").is_empty());
        assert_eq!(field("spec.x"), ["s.nodeSelectorTerms[0].matchFields[0].key"]);
    }
}
