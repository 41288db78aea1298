//! Attributes of access reviews.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::selector::{LabelSelectorRequirement, ValidationOptions};
use serde_json::Value;

use crate::{internal_types, view};

/// Newer clients may send operators that are unknown here; the review is still answered.
const OPTIONS: ValidationOptions =
    ValidationOptions { allow_invalid_values: false, allow_unknown_operators: true };

/// Requires exactly one of resource and non-resource attributes.
pub(super) fn check_own_attributes(review: &Value, errors: &mut ErrorList) {
    check_choice(review, errors);
    check_selectors(review, errors);
}

/// The same for a review of another subject, which must name a user or a group.
pub(super) fn check_attributes_of_subject(review: &Value, errors: &mut ErrorList) {
    check_choice(review, errors);
    check_subject(review, errors);
    check_selectors(review, errors);
}

fn check_choice(review: &Value, errors: &mut ErrorList) {
    let path = Path::root("spec");
    let resource = view::at(review, &["spec", "resourceAttributes"]);
    let other = view::at(review, &["spec", "nonResourceAttributes"]);
    match (resource, other) {
        (Some(_), Some(other)) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            let printed = internal_types::printed("*@authorization.NonResourceAttributes", Some(other));
            errors.push(FieldError::invalid(&path.child("nonResourceAttributes"), printed, detail));
        }
        (None, None) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(FieldError::invalid(&path.child("resourceAttributes"), &Value::Null, detail));
        }
        _ => {}
    }
}

fn check_selectors(review: &Value, errors: &mut ErrorList) {
    if let Some(attributes) = view::at(review, &["spec", "resourceAttributes"]) {
        let path = Path::root("spec.resourceAttributes");
        check_selector(attributes, "fieldSelector", &path, check_field_requirement, errors);
        check_selector(attributes, "labelSelector", &path, check_label_requirement, errors);
    }
}

fn check_subject(review: &Value, errors: &mut ErrorList) {
    let user = view::text(review, &["spec", "user"]);
    if user.is_empty() && view::items(review, &["spec", "groups"]).is_empty() {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid(&Path::root("spec.user"), user, detail));
    }
}

/// Requires empty metadata, except for some fields.
pub(super) fn check_metadata(review: &Value, except: &[&str], detail: &str, errors: &mut ErrorList) {
    let present = |(name, value): (&String, &Value)| {
        name != "managedFields" && !except.contains(&name.as_str()) && !is_zero(value)
    };
    if view::fields(review, &["metadata"]).any(present) {
        let metadata = internal_types::printed("@meta.ObjectMeta", review.get("metadata"));
        errors.push(FieldError::invalid(&Path::root("metadata"), metadata, detail));
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) => false,
    }
}

fn check_selector(
    attributes: &Value,
    field: &str,
    path: &Path<'_>,
    check_requirement: fn(&Value, &Path<'_>, &mut ErrorList),
    errors: &mut ErrorList,
) {
    let Some(selector) = attributes.get(field) else { return };
    let path = path.child(field);
    let raw = view::text(selector, &["rawSelector"]);
    let requirements = view::items(selector, &["requirements"]);
    let requirements_path = path.child("requirements");
    match (raw.is_empty(), requirements.is_empty()) {
        (false, false) => {
            let detail = "may not specified at the same time as requirements";
            errors.push(FieldError::invalid(&path.child("rawSelector"), raw, detail));
        }
        (true, true) => {
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(FieldError::required(&requirements_path, detail));
        }
        _ => {}
    }
    for (index, requirement) in requirements.iter().enumerate() {
        check_requirement(requirement, &requirements_path.index(index), errors);
    }
}

fn check_label_requirement(requirement: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Ok(requirement) = serde_json::from_value::<LabelSelectorRequirement>(requirement.clone()) {
        errors.extend(requirement.validate(path, OPTIONS));
    }
}

fn check_field_requirement(requirement: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if view::text(requirement, &["key"]).is_empty() {
        errors.push(FieldError::required(&path.child("key"), "must be specified"));
    }
    let no_values = view::items(requirement, &["values"]).is_empty();
    match view::text(requirement, &["operator"]) {
        "In" | "NotIn" if no_values => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&path.child("values"), detail));
        }
        "Exists" | "DoesNotExist" if !no_values => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&path.child("values"), detail));
        }
        _ => {}
    }
}
