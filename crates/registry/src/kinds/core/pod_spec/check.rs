//! Validation of single values, shared by many fields.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name::{self, Messages};
use serde_json::Value;

use crate::view;

/// Message for negative numbers.
pub(crate) const NEGATIVE: &str = "must be greater than or equal to 0";
/// Message for numbers that must be positive.
pub(crate) const NOT_POSITIVE: &str = "must be greater than zero";
const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Reports one error per message.
pub(crate) fn push_all(value: &str, messages: Messages, path: &Path<'_>, errors: &mut ErrorList) {
    errors.extend(messages.into_iter().map(|message| FieldError::invalid(path, value, message)));
}

/// Validates a DNS label.
pub(crate) fn dns_label(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    push_all(value, name::dns1123_label(value), path, errors);
}

/// Validates a DNS subdomain, such as the name of most objects.
pub(crate) fn dns_subdomain(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    push_all(value, name::dns1123_subdomain(value), path, errors);
}

/// Validates a name with an optional prefix, such as the key of a label.
pub(crate) fn qualified_name(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    push_all(value, name::qualified_name(value), path, errors);
}

/// Requires a text that is not empty, and returns it.
pub(crate) fn required<'a>(
    object: &'a Value,
    field: &str,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> &'a str {
    let text = view::text(object, &[field]);
    if text.is_empty() {
        errors.push(FieldError::required(&path.child(field), ""));
    }
    text
}

/// Requires a text that is one of the allowed values, which messages list in this order.
pub(crate) fn one_of(object: &Value, field: &str, allowed: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    let value = view::text(object, &[field]);
    if value.is_empty() {
        errors.push(FieldError::required(&path.child(field), ""));
    } else {
        supported(value, allowed, &path.child(field), errors);
    }
}

/// Requires one of the allowed values, if the field is set.
pub(crate) fn one_of_if_set(
    object: &Value,
    field: &str,
    allowed: &[&str],
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if let Some(value) = object.get(field).and_then(Value::as_str) {
        supported(value, allowed, &path.child(field), errors);
    }
}

/// Requires one of the allowed values.
pub(crate) fn supported(value: &str, allowed: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    if !allowed.contains(&value) {
        errors.push(FieldError::not_supported(path, BadValue::named(value), allowed));
    }
}

/// Rejects a negative number.
pub(crate) fn non_negative(object: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(value) = view::integer(object, &[field])
        && value < 0
    {
        errors.push(FieldError::invalid(&path.child(field), value, NEGATIVE));
    }
}

/// Requires a number within inclusive bounds.
pub(crate) fn in_range(value: i64, low: i64, high: i64, path: &Path<'_>, errors: &mut ErrorList) {
    for message in name::in_range(value, low, high) {
        errors.push(FieldError::invalid(path, value, message));
    }
}

/// Validates the ID of a user or group, if it is set.
pub(crate) fn identity(object: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(value) = view::integer(object, &[field]) {
        in_range(value, 0, i64::from(i32::MAX), &path.child(field), errors);
    }
}

/// Validates the permissions of a file, if they are set.
pub(crate) fn file_mode(object: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(mode) = view::integer(object, &[field])
        && !(0..=0o777).contains(&mode)
    {
        errors.push(FieldError::invalid(&path.child(field), mode, FILE_MODE));
    }
}

/// Validates a port number or name.
pub(crate) fn port(value: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    match value {
        Some(Value::String(text)) => push_all(text, name::port_name(text), path, errors),
        other => in_range(other.and_then(Value::as_i64).unwrap_or(0), 1, 65_535, path, errors),
    }
}

/// Rejects a path with `..` segments.
pub(crate) fn no_backsteps(target: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if target.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(path, target, "must not contain '..'"));
    }
}

/// Requires a relative path without `..` segments.
pub(crate) fn descending_path(target: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if target.starts_with('/') {
        errors.push(FieldError::invalid(path, target, "must be a relative path"));
    }
    no_backsteps(target, path, errors);
}

/// Like [`descending_path`], and rejects names starting with `..`, which the kubelet uses itself.
pub(crate) fn non_reserved_path(target: &str, path: &Path<'_>, errors: &mut ErrorList) {
    descending_path(target, path, errors);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.push(FieldError::invalid(path, target, "must not start with '..'"));
    }
}

/// Validates labels, or a similar map.
pub(crate) fn labels(labels: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    let labels = labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    errors.extend(coracle_meta::object::validate_labels(labels, path));
}

/// Returns the names of all items of a list.
pub(crate) fn names(items: &[Value]) -> impl Iterator<Item = &str> {
    items.iter().map(|item| view::text(item, &["name"]))
}
