//! Metrics of an autoscaler and their targets.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::quantity::Quantity;
use serde_json::Value;

use crate::kinds::{ratchet, rules};
use crate::view;

/// Metric types, sorted, with their fields.
const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

/// The fields in the order in which kube-apiserver checks them; it validates only the first.
const FIELDS: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];

/// Validates a metric.
pub(super) fn validate(metric: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let metric_type = view::text(metric, &["type"]);
    let type_path = path.child("type");
    if metric_type.is_empty() {
        errors.push(FieldError::required(&type_path, "must specify a metric source type"));
    }
    let types = SOURCES.map(|(name, _)| name);
    rules::one_of(&type_path, metric_type, &types, errors);
    let present: Vec<_> = FIELDS.into_iter().filter(|field| metric.get(field).is_some()).collect();
    if let Some(first) = present.first() {
        validate_source(first, &metric[*first], &path.child(first), errors);
    }
    let expected = SOURCES.into_iter().find(|(name, _)| *name == metric_type).map(|(_, field)| field);
    match expected {
        Some(field) if metric.get(field).is_none() => {
            let detail = "must populate information for the given metric source";
            errors.push(FieldError::required(&path.child(field), detail));
        }
        Some(_) => {}
        None => errors.push(FieldError::not_supported(&type_path, BadValue::named(metric_type), &types)),
    }
    if present.len() > 1 {
        for field in present.iter().filter(|field| Some(**field) != expected) {
            let detail = "must populate the given metric source only";
            errors.push(FieldError::forbidden(&path.child(field), detail));
        }
    }
}

fn validate_source(field: &str, source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let target = source.get("target").unwrap_or(&Value::Null);
    match field {
        "object" => {
            let described = source.get("describedObject").unwrap_or(&Value::Null);
            let described_path = path.child("describedObject");
            validate_reference(described, &described_path, errors);
            errors.ratcheted(ratchet::METRIC_OBJECT_VERSION, |errors| {
                validate_version(described, true, &described_path, errors);
            });
            validate_metric_name(source, path, errors);
        }
        "external" | "pods" => validate_metric_name(source, path, errors),
        "containerResource" => validate_container_resource(source, path, errors),
        _ => {
            require(source, "name", "must specify a resource name", path, errors);
        }
    }
    let path = path.child("target");
    validate_target(target, &path, errors);
    validate_target_fields(field, target, &path, errors);
}

/// Requires the fields of a target that its metric needs, and no conflicting ones.
fn validate_target_fields(field: &str, target: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let [value, average, utilization] =
        ["value", "averageValue", "averageUtilization"].map(|field| target.get(field).is_some());
    let missing = match field {
        "object" if !value && !average => {
            Some(("averageValue", "must set either a target value or averageValue"))
        }
        "external" if !value && !average => {
            Some(("averageValue", "must set either a target value for metric or a per-pod target"))
        }
        "pods" if !average => Some(("averageValue", "must specify a positive target averageValue")),
        "resource" | "containerResource" if !utilization && !average => {
            Some(("averageUtilization", "must set either a target raw value or a target utilization"))
        }
        _ => None,
    };
    if let Some((field, detail)) = missing {
        errors.push(FieldError::required(&path.child(field), detail));
    }
    let surplus = match field {
        "external" if value && average => {
            Some(("value", "may not set both a target value for metric and a per-pod target"))
        }
        "resource" | "containerResource" if utilization && average => {
            Some(("averageValue", "may not set both a target raw value and a target utilization"))
        }
        _ => None,
    };
    if let Some((field, detail)) = surplus {
        errors.push(FieldError::forbidden(&path.child(field), detail));
    }
}

fn validate_target(target: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let target_type = view::text(target, &["type"]);
    let type_path = path.child("type");
    if target_type.is_empty() {
        errors.push(FieldError::required(&type_path, "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&target_type) {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(&type_path, BadValue::named(target_type), detail));
    }
    for field in ["value", "averageValue"] {
        if let Some(amount) = target.get(field)
            && Quantity::from_json(amount).is_ok_and(|amount| amount.sign() != 1)
        {
            errors.push(FieldError::invalid(&path.child(field), BadValue::json(amount), "must be positive"));
        }
    }
    if let Some(percent) = view::integer(target, &["averageUtilization"]).filter(|percent| *percent < 1) {
        let path = path.child("averageUtilization");
        errors.push(FieldError::invalid(&path, percent, "must be greater than 0"));
    }
}

fn validate_metric_name(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("metric");
    let metric = source.get("metric").unwrap_or(&Value::Null);
    if let Some(metric) = require(metric, "name", "must specify a metric name", &path, errors) {
        rules::each_message(&path.child("name"), metric, name::path_segment_name(metric), errors);
    }
}

fn validate_container_resource(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(resource) = require(source, "name", "must specify a resource name", path, errors) {
        validate_resource_name(resource, &path.child("name"), errors);
    }
    if let Some(container) = require(source, "container", "must specify a container", path, errors) {
        rules::each_message(&path.child("container"), container, name::dns1123_label(container), errors);
    }
}

/// Requires a resource name of containers: a standard one, or one with a domain.
fn validate_resource_name(resource: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let messages = name::qualified_name(resource);
    let is_standard = matches!(resource, "cpu" | "memory" | "ephemeral-storage")
        || resource.starts_with("hugepages-")
        || resource.contains('/');
    if messages.is_empty() && !is_standard {
        let detail = "must be a standard resource type or fully qualified";
        errors.push(FieldError::invalid(path, BadValue::named(resource), detail));
    }
    rules::each_message(path, resource, messages, errors);
    if !is_standard {
        let detail = "must be a standard resource for containers";
        errors.push(FieldError::invalid(path, BadValue::named(resource), detail));
    }
}

/// Requires a non-empty string.
fn require<'a>(
    object: &'a Value,
    field: &str,
    detail: &str,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<&'a str> {
    let text = view::text(object, &[field]);
    if text.is_empty() {
        errors.push(FieldError::required(&path.child(field), detail));
        return None;
    }
    Some(text)
}

/// Validates a reference to another object; only some may lack a group.
pub(super) fn validate_reference(reference: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["kind", "name"] {
        let text = view::text(reference, &[field]);
        rules::required_name(&path.child(field), text, name::path_segment_name, errors);
    }
}

/// Validates the `apiVersion` of a reference.
pub(super) fn validate_version(
    reference: &Value,
    may_lack_group: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let api_version = view::text(reference, &["apiVersion"]);
    let detail = match api_version.matches('/').count() {
        0 | 1 if may_lack_group => return,
        0 => "apiVersion must specify API group".to_owned(),
        1 if api_version.starts_with('/') => "apiVersion must specify API group".to_owned(),
        1 => return,
        _ => format!("unexpected GroupVersion string: {api_version}"),
    };
    errors.push(FieldError::invalid(&path.child("apiVersion"), api_version, detail));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(metric: Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate(&metric, &Path::root("m"), &mut errors);
        errors.iter().map(|error| format!("{} {}", error.field, error.detail)).collect()
    }

    #[test]
    fn metric_needs_the_source_of_its_type() {
        let utilization = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
        assert!(check(json!({"type": "Resource", "resource": utilization})).is_empty());
        assert_eq!(
            check(json!({"type": "Pods", "resource": utilization})),
            ["m.pods must populate information for the given metric source"]
        );
        let pods = json!({"metric": {"name": "x"}, "target": {"type": "AverageValue", "averageValue": "1"}});
        assert_eq!(
            check(json!({"type": "Pods", "resource": utilization, "pods": pods})),
            ["m.resource must populate the given metric source only"]
        );
    }

    #[test]
    fn targets_must_be_positive_and_match_the_source() {
        let metric = |target: Value| json!({"type": "External", "external": {"metric": {"name": "a/b"}, "target": target}});
        assert_eq!(
            check(metric(json!({"type": "x", "value": "0", "averageValue": "1"}))),
            [
                "m.external.metric.name may not contain '/'",
                "m.external.target.type must be either Utilization, Value, or AverageValue",
                "m.external.target.value must be positive",
                "m.external.target.value may not set both a target value for metric and a per-pod target",
            ]
        );
    }

    #[test]
    fn references_need_a_group() {
        for (api_version, expected) in [
            ("apps/v1", ""),
            ("v1", "apiVersion must specify API group"),
            ("a/b/c", "unexpected GroupVersion string: a/b/c"),
        ] {
            let mut errors = ErrorList::new();
            let reference = json!({"kind": "Deployment", "name": "web", "apiVersion": api_version});
            validate_reference(&reference, &Path::root("r"), &mut errors);
            validate_version(&reference, false, &Path::root("r"), &mut errors);
            let details: String = errors.iter().map(|error| error.detail.as_str()).collect();
            assert_eq!(details, expected);
        }
    }
}
