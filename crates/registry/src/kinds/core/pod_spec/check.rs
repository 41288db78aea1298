//! Checks of single values that many fields share.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name::{self, Messages};
use serde_json::Value;

use crate::view;

/// What is said of numbers that may be zero but not less.
pub(crate) const NEGATIVE: &str = "must be greater than or equal to 0";
/// What is said of numbers that may not even be zero.
pub(crate) const NOT_POSITIVE: &str = "must be greater than zero";
const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// One error for each thing that a rule has against a value.
pub(crate) fn push_all(value: &str, messages: Messages, path: &Path<'_>, errors: &mut ErrorList) {
    errors.extend(messages.into_iter().map(|message| FieldError::invalid(path, value, message)));
}

/// A DNS label.
pub(crate) fn dns_label(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    push_all(value, name::dns1123_label(value), path, errors);
}

/// A DNS subdomain, such as the name of most objects.
pub(crate) fn dns_subdomain(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    push_all(value, name::dns1123_subdomain(value), path, errors);
}

/// A name with an optional prefix, such as the key of a label.
pub(crate) fn qualified_name(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    push_all(value, name::qualified_name(value), path, errors);
}

/// A text that must not be empty; returns it.
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

/// A text that must be there and among those allowed, which are told in this order.
pub(crate) fn one_of(object: &Value, field: &str, allowed: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    let value = view::text(object, &[field]);
    if value.is_empty() {
        errors.push(FieldError::required(&path.child(field), ""));
    } else {
        supported(value, allowed, &path.child(field), errors);
    }
}

/// A text that must be among those allowed if it is there at all.
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

/// A text that must be among those allowed.
pub(crate) fn supported(value: &str, allowed: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    if !allowed.contains(&value) {
        errors.push(FieldError::not_supported(path, BadValue::named(value), allowed));
    }
}

/// A number that may be absent or zero, but not less.
pub(crate) fn non_negative(object: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(value) = view::integer(object, &[field])
        && value < 0
    {
        errors.push(FieldError::invalid(&path.child(field), value, NEGATIVE));
    }
}

/// A number within bounds.
pub(crate) fn in_range(value: i64, low: i64, high: i64, path: &Path<'_>, errors: &mut ErrorList) {
    for message in name::in_range(value, low, high) {
        errors.push(FieldError::invalid(path, value, message));
    }
}

/// The number of a user or group, if it is there.
pub(crate) fn identity(object: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(value) = view::integer(object, &[field]) {
        in_range(value, 0, i64::from(i32::MAX), &path.child(field), errors);
    }
}

/// The permissions of a file, if they are there.
pub(crate) fn file_mode(object: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(mode) = view::integer(object, &[field])
        && !(0..=0o777).contains(&mode)
    {
        errors.push(FieldError::invalid(&path.child(field), mode, FILE_MODE));
    }
}

/// A port by number or name.
pub(crate) fn port(value: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    match value {
        Some(Value::String(text)) => push_all(text, name::port_name(text), path, errors),
        other => in_range(other.and_then(Value::as_i64).unwrap_or(0), 1, 65_535, path, errors),
    }
}

/// A path that does not step up.
pub(crate) fn no_backsteps(target: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if target.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(path, target, "must not contain '..'"));
    }
}

/// A relative path that does not step up.
pub(crate) fn descending_path(target: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if target.starts_with('/') {
        errors.push(FieldError::invalid(path, target, "must be a relative path"));
    }
    no_backsteps(target, path, errors);
}

/// The same, and not one that the node uses for itself.
pub(crate) fn non_reserved_path(target: &str, path: &Path<'_>, errors: &mut ErrorList) {
    descending_path(target, path, errors);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.push(FieldError::invalid(path, target, "must not start with '..'"));
    }
}

/// Labels, or a map like them.
pub(crate) fn labels(labels: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    let labels = labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    errors.extend(coracle_meta::object::validate_labels(labels, path));
}

/// The names of all items of a list.
pub(crate) fn names(items: &[Value]) -> impl Iterator<Item = &str> {
    items.iter().map(|item| view::text(item, &["name"]))
}
