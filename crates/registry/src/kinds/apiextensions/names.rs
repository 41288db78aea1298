//! The names of a custom kind.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use crate::kinds::rules;
use crate::view;

/// Requires the names that must be set after defaults.
pub(super) fn check_required(names: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["plural", "singular", "kind", "listKind"] {
        rules::required(&path.child(field), view::text(names, &[field]), errors);
    }
}

/// Validates the names that are set.
pub(super) fn check(names: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["plural", "singular"] {
        let text = view::text(names, &[field]);
        if !text.is_empty() {
            check_label(text, &path.child(field), errors);
        }
    }
    for field in ["kind", "listKind"] {
        let text = view::text(names, &[field]);
        let messages = name::dns1035_label(&text.to_lowercase());
        if !text.is_empty() && !messages.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", messages.join(","));
            errors.push(FieldError::invalid(&path.child(field), text, detail));
        }
    }
    check_labels(names, "shortNames", path, errors);
    let list_kind = view::text(names, &["listKind"]);
    if !list_kind.is_empty() && list_kind == view::text(names, &["kind"]) {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&path.child("listKind"), list_kind, detail));
    }
    check_labels(names, "categories", path, errors);
}

/// Requires a DNS label. Reports all problems in one error.
pub(super) fn check_label(label: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let messages = name::dns1035_label(label);
    if !messages.is_empty() {
        errors.push(FieldError::invalid(path, label, messages.join(",")));
    }
}

fn check_labels(names: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child(field);
    for (index, label) in view::items(names, &[field]).iter().filter_map(Value::as_str).enumerate() {
        check_label(label, &path.index(index), errors);
    }
}
