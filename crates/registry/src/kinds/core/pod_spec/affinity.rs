//! Node affinity, pod affinity and pod anti-affinity.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::check;
use crate::kinds::core::label_selector;
use crate::kinds::ratchet;
use crate::view;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Validates an affinity.
pub(super) fn validate(affinity: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(affinity) = affinity else { return };
    if let Some(nodes) = affinity.get("nodeAffinity") {
        node_affinity(nodes, &path.child("nodeAffinity"), errors);
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        if let Some(pods) = affinity.get(field) {
            pod_affinity(pods, &path.child(field), errors);
        }
    }
}

fn node_affinity(affinity: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(selector) = affinity.get(REQUIRED) {
        validate_node_selector(selector, &path.child(REQUIRED), errors);
    }
    let list = path.child(PREFERRED);
    for (index, term) in view::items(affinity, &[PREFERRED]).iter().enumerate() {
        let path = list.index(index);
        weight(term, &path, errors);
        let preference = term.get("preference").unwrap_or(&Value::Null);
        // Values that no node can have do no harm in a mere preference.
        node_selector_term(preference, false, &path.child("preference"), errors);
    }
}

fn weight(term: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let weight = view::integer(term, &["weight"]).unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(&path.child("weight"), weight, "must be in the range 1-100"));
    }
}

/// Validates a node selector.
pub fn validate_node_selector(selector: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let list = path.child("nodeSelectorTerms");
    let terms = view::items(selector, &["nodeSelectorTerms"]);
    if terms.is_empty() {
        errors.push(FieldError::required(&list, "must have at least one node selector term"));
    }
    for (index, term) in terms.iter().enumerate() {
        node_selector_term(term, true, &list.index(index), errors);
    }
}

fn node_selector_term(term: &Value, check_values: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let expressions = path.child("matchExpressions");
    for (index, requirement) in view::items(term, &["matchExpressions"]).iter().enumerate() {
        label_requirement(requirement, check_values, &expressions.index(index), errors);
    }
    let fields = path.child("matchFields");
    for (index, requirement) in view::items(term, &["matchFields"]).iter().enumerate() {
        field_requirement(requirement, &fields.index(index), errors);
    }
}

fn label_requirement(requirement: &Value, check_values: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let values = view::items(requirement, &["values"]);
    let values_path = path.child("values");
    match view::text(requirement, &["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let message = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&values_path, message));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&values_path, message));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let message = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(&values_path, message));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => unknown_operator(other, path, errors),
    }
    check::qualified_name(view::text(requirement, &["key"]), &path.child("key"), errors);
    if check_values {
        for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
            errors.ratcheted(ratchet::NODE_AFFINITY_VALUE, |errors| {
                check::push_all(value, name::label_value(value), &values_path.index(index), errors);
            });
        }
    }
}

fn unknown_operator(operator: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let message = "not a valid selector operator";
    errors.push(FieldError::invalid(&path.child("operator"), BadValue::named(operator), message));
}

/// The only field of a node that can be selected by is its name.
fn field_requirement(requirement: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let values = view::items(requirement, &["values"]);
    let values_path = path.child("values");
    match view::text(requirement, &["operator"]) {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => {
            let message = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(&values_path, message));
        }
        other => unknown_operator(other, path, errors),
    }
    let key = view::text(requirement, &["key"]);
    if key != "metadata.name" {
        let message = "not a valid field selector key";
        return errors.push(FieldError::invalid(&path.child("key"), key, message));
    }
    for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
        check::dns_subdomain(value, &values_path.index(index), errors);
    }
}

fn pod_affinity(affinity: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let required = path.child(REQUIRED);
    for (index, term) in view::items(affinity, &[REQUIRED]).iter().enumerate() {
        pod_term(term, &required.index(index), errors);
    }
    let preferred = path.child(PREFERRED);
    for (index, weighted) in view::items(affinity, &[PREFERRED]).iter().enumerate() {
        let path = preferred.index(index);
        weight(weighted, &path, errors);
        let term = weighted.get("podAffinityTerm").unwrap_or(&Value::Null);
        pod_term(term, &path.child("podAffinityTerm"), errors);
    }
}

fn pod_term(term: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["labelSelector", "namespaceSelector"] {
        if let Some(selector) = term.get(field) {
            label_selector::validate(selector, &path.child(field), errors);
        }
    }
    for namespace in view::items(term, &["namespaces"]).iter().filter_map(Value::as_str) {
        check::dns_label(namespace, &path.child("namespace"), errors);
    }
    label_keys(term, path, errors);
    let key = view::text(term, &["topologyKey"]);
    if key.is_empty() {
        errors.push(FieldError::required(&path.child("topologyKey"), "can not be empty"));
    }
    check::qualified_name(key, &path.child("topologyKey"), errors);
}

/// Validates `matchLabelKeys` and `mismatchLabelKeys`, which are merged into the selector by now.
pub(super) fn label_keys(term: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let selector = term.get("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let list = path.child(field);
        let keys = view::items(term, &[field]);
        if selector.is_none() && !keys.is_empty() {
            let message = "must not be specified when labelSelector is not set";
            errors.push(FieldError::forbidden(&list, message));
            continue;
        }
        for (index, key) in keys.iter().filter_map(Value::as_str).enumerate() {
            check::qualified_name(key, &list.index(index), errors);
        }
    }
    let keys = view::items(term, &["matchLabelKeys"]);
    if let Some(selector) = selector {
        keys_in_selector(keys, selector, path, errors);
    }
    let mismatched = view::items(term, &["mismatchLabelKeys"]);
    let list = path.child("matchLabelKeys");
    for (index, key) in keys.iter().enumerate().filter(|(_, key)| mismatched.contains(key)) {
        let message = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.push(FieldError::invalid(&list.index(index), key, message));
    }
}

fn keys_in_selector(keys: &[Value], selector: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut selected: BTreeSet<&str> =
        view::fields(selector, &["matchLabels"]).map(|(key, _)| key.as_str()).collect();
    for expression in view::items(selector, &["matchExpressions"]) {
        let key = view::text(expression, &["key"]);
        // The first requirement was merged from the key; a second one is the client's.
        if let Some(index) = keys.iter().rposition(|wanted| *wanted == key)
            && selected.contains(key)
        {
            let message = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid(&path.index(index), key, message));
        }
        selected.insert(key);
    }
}
