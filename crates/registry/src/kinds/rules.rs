//! Validation rules that kinds of several groups share, with kube-apiserver's messages.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name::Messages;
use coracle_meta::object::validate_labels;
use coracle_meta::selector::{LabelSelector, ValidationOptions};
use serde_json::Value;

use super::ratchet;
use crate::kind::Column;
use crate::{internal_types, view};

/// Adds an error for each message of a naming rule.
pub(crate) fn each_message(path: &Path<'_>, value: &str, messages: Messages, errors: &mut ErrorList) {
    errors.extend(messages.into_iter().map(|message| FieldError::invalid(path, value, message)));
}

/// Requires a non-empty string. Returns whether it is one.
pub(crate) fn required(path: &Path<'_>, value: &str, errors: &mut ErrorList) -> bool {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    !value.is_empty()
}

/// Requires one of several values. Returns whether it is one.
pub(crate) fn one_of(path: &Path<'_>, value: &str, allowed: &[&str], errors: &mut ErrorList) -> bool {
    let known = allowed.contains(&value);
    if !known {
        errors.push(FieldError::not_supported(path, BadValue::named(value), allowed));
    }
    known
}

/// Requires a name that follows a rule.
pub(crate) fn required_name(
    path: &Path<'_>,
    value: &str,
    rule: fn(&str) -> Messages,
    errors: &mut ErrorList,
) {
    if required(path, value, errors) {
        each_message(path, value, rule(value), errors);
    }
}

/// Validates the whole object during an update, in addition to [`crate::Kind::revalidate`].
///
/// kube-apiserver validates updates of some kinds with two functions that share checks, and reports the errors of
/// both.
pub(crate) fn check_again(
    new: &Value,
    old: &Value,
    errors: &mut ErrorList,
    check: fn(&Value, &mut ErrorList),
) {
    let mut found = ErrorList::new();
    check(new, &mut found);
    found.forgive(new, old, check);
    errors.extend(found);
}

/// Requires that a field, whose type is in [`internal_types`], is unchanged.
pub(crate) fn unchanged(
    shape: &str,
    path: &Path<'_>,
    new: Option<&Value>,
    old: Option<&Value>,
    errors: &mut ErrorList,
) {
    if !same(new, old) {
        errors.push(FieldError::invalid(path, internal_types::printed(shape, new), "field is immutable"));
    }
}

/// Semantic equality: empty lists and maps equal absent ones.
pub(crate) fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.iter().all(|(key, value)| same(Some(value), b.get(key)))
                && b.iter().all(|(key, value)| a.contains_key(key) || same(None, Some(value)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (Some(value), None) | (None, Some(value)) => is_empty_collection(value),
        (a, b) => a == b,
    }
}

fn is_empty_collection(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Validates a label selector.
pub(crate) fn label_selector(path: &Path<'_>, selector: Option<&Value>, errors: &mut ErrorList) {
    if let Some(selector) = selector.and_then(parse_label_selector) {
        checked_label_selector(path, &selector, errors);
    }
}

/// Validates a parsed label selector.
pub(crate) fn checked_label_selector(path: &Path<'_>, selector: &LabelSelector, errors: &mut ErrorList) {
    let lenient = ValidationOptions { allow_invalid_values: true, ..ValidationOptions::default() };
    let tolerated = selector.validate(path, lenient);
    // Only strict validation checks the values, as early versions did not.
    errors.extend(selector.validate(path, ValidationOptions::default()).into_iter().map(|error| {
        if tolerated.iter().any(|other| *other == error) {
            error
        } else {
            error.unless(ratchet::SELECTOR_VALUE)
        }
    }));
}

/// Parses a label selector.
pub(crate) fn parse_label_selector(selector: &Value) -> Option<LabelSelector> {
    serde_json::from_value(selector.clone()).ok()
}

/// Validates a map of labels.
pub(crate) fn labels(path: &Path<'_>, labels: Option<&Value>, errors: &mut ErrorList) {
    let pairs = labels.and_then(Value::as_object).into_iter().flatten();
    let pairs = pairs.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    errors.extend(validate_labels(pairs, path));
}

/// Requires a number that is not negative.
pub(crate) fn not_negative(path: &Path<'_>, value: Option<i64>, errors: &mut ErrorList) {
    if let Some(value) = value.filter(|value| *value < 0) {
        errors.push(FieldError::invalid(path, value, "must be greater than or equal to 0"));
    }
}

/// The reason why a label of nodes is deprecated, if it is.
pub(crate) fn deprecated_node_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

/// Columns of kinds without a printer in Kubernetes.
pub(crate) fn plain_columns() -> Vec<Column> {
    let created = Column::text("Created At", "when the object was created");
    vec![Column::name(), Column { value_type: "date".into(), ..created }]
}

/// Cells of [`plain_columns`].
pub(crate) fn plain_cells(object: &Value) -> Vec<Value> {
    let created = view::at(object, &["metadata", "creationTimestamp"]);
    vec![view::name(object).into(), created.cloned().unwrap_or(Value::Null)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_collection_equals_absent_one() {
        let (with, without) = (json!({"a": 1, "b": []}), json!({"a": 1}));
        assert!(same(Some(&with), Some(&without)) && same(Some(&without), Some(&with)));
        assert!(same(Some(&json!({})), None));
        assert!(!same(Some(&json!("")), None));
        assert!(!same(Some(&json!({"a": 1, "b": 2})), Some(&without)));
        assert!(!same(Some(&without), Some(&json!({"a": 1, "b": 2}))));
    }
}
