//! Validation of labels, annotations, owner references, finalizers and managedFields.

use std::collections::BTreeSet;

use serde_json::Value;

use super::validate::invalid;
use super::{FINALIZER_DELETE_DEPENDENTS, FINALIZER_ORPHAN_DEPENDENTS, OwnerReference};
use crate::field::{BadValue, ErrorList, FieldError, Path, is_printable, json_text, quoted};
use crate::gvk::GroupVersionKind;
use crate::name;

/// Maximum size of all annotations of an object together, in bytes, including keys.
pub const TOTAL_ANNOTATION_SIZE_LIMIT: usize = 256 * 1024;

/// Maximum length of a field manager's name, in bytes.
pub const FIELD_MANAGER_MAX_LENGTH: usize = 128;

const SUBRESOURCE_MAX_LENGTH: usize = 256;

/// Events are too short-lived to own objects.
const DISALLOWED_OWNER: GroupVersionKind = GroupVersionKind::from_static("", "v1", "Event");

/// Validates keys and values of labels.
pub fn validate_labels<'a>(
    labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    path: &Path<'_>,
) -> ErrorList {
    let mut errors = ErrorList::new();
    for (key, value) in labels {
        errors.extend(invalid(path, key, name::qualified_name(key)));
        errors.extend(invalid(path, value, name::label_value(value)));
    }
    errors
}

/// Validates keys and the total size of annotations.
pub fn validate_annotations<'a>(
    annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
    path: &Path<'_>,
) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut total_bytes = 0;
    for (key, value) in annotations {
        total_bytes += key.len() + value.len();
        // Unlike label keys, annotation keys may have an upper-case prefix.
        errors.extend(invalid(path, key, name::qualified_name(&key.to_lowercase())));
    }
    if total_bytes > TOTAL_ANNOTATION_SIZE_LIMIT {
        errors.push(FieldError::too_long(path, TOTAL_ANNOTATION_SIZE_LIMIT));
    }
    errors
}

/// Validates owner references, of which at most one may be the controller.
pub fn validate_owner_references(owners: &[OwnerReference<'_>], path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut controller: Option<String> = None;
    for owner in owners {
        errors.extend(validate_owner_reference(*owner, path));
        if owner.controller != Some(true) {
            continue;
        }
        let this = format!("{}/{}", owner.kind, owner.name);
        let Some(first) = &controller else {
            controller = Some(this);
            continue;
        };
        let all: Vec<String> = owners.iter().map(|owner| owner.json()).collect();
        let message = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
        );
        errors.push(FieldError::invalid(path, BadValue::Json(format!("[{}]", all.join(","))), message));
    }
    errors
}

fn validate_owner_reference(owner: OwnerReference<'_>, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let kind = owner.group_version_kind();
    if kind.version.is_empty() {
        let path = path.child("apiVersion");
        errors.push(FieldError::invalid(&path, owner.api_version, "version must not be empty"));
    }
    for (field, value) in [("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)] {
        if value.is_empty() {
            errors.push(FieldError::invalid(&path.child(field), value, "must not be empty"));
        }
    }
    if kind == DISALLOWED_OWNER {
        let message = format!("{kind} is disallowed from being an owner");
        errors.push(FieldError::invalid(path, BadValue::Json(owner.json()), message));
    }
    errors
}

/// Validates finalizers; `orphan` and `foregroundDeletion` exclude each other.
pub fn validate_finalizers(finalizers: &[&str], path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    for finalizer in finalizers {
        errors.extend(invalid(path, finalizer, name::qualified_name(finalizer)));
    }
    let (orphan, foreground) = (FINALIZER_ORPHAN_DEPENDENTS, FINALIZER_DELETE_DEPENDENTS);
    if finalizers.contains(&orphan) && finalizers.contains(&foreground) {
        let all = finalizers.iter().copied().map(Value::from).collect::<Vec<_>>();
        let message = format!("finalizer {orphan} and {foreground} cannot be both set");
        errors.push(FieldError::invalid(path, BadValue::Json(json_text(&Value::from(all))), message));
    }
    errors
}

/// Rejects finalizers added to an object that is being deleted.
pub fn validate_no_new_finalizers<'a>(
    new: impl IntoIterator<Item = &'a str>,
    old: impl IntoIterator<Item = &'a str>,
    path: &Path<'_>,
) -> Option<FieldError> {
    let old: BTreeSet<&str> = old.into_iter().collect();
    let extra: BTreeSet<&str> = new.into_iter().filter(|finalizer| !old.contains(finalizer)).collect();
    if extra.is_empty() {
        return None;
    }
    let extra: Vec<String> = extra.into_iter().map(|finalizer| quoted(finalizer).to_string()).collect();
    let message = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        extra.join(", ")
    );
    Some(FieldError::forbidden(path, message))
}

/// Validates the entries of `managedFields`, except for `fieldsV1`.
pub fn validate_managed_fields(entries: &[Value], path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    for (index, entry) in entries.iter().enumerate() {
        let path = path.index(index);
        let text = |name| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = text("operation");
        if operation != "Apply" && operation != "Update" {
            let found = BadValue::named(operation);
            errors.push(FieldError::invalid(&path.child("operation"), found, "must be `Apply` or `Update`"));
        }
        let fields_type = text("fieldsType");
        if !fields_type.is_empty() && fields_type != "FieldsV1" {
            errors.push(FieldError::invalid(&path.child("fieldsType"), fields_type, "must be `FieldsV1`"));
        }
        errors.extend(validate_field_manager(text("manager"), &path.child("manager")));
        if text("subresource").len() > SUBRESOURCE_MAX_LENGTH {
            errors.push(FieldError::too_long(&path.child("subresource"), SUBRESOURCE_MAX_LENGTH));
        }
    }
    errors
}

/// Validates the name of a field manager.
pub fn validate_field_manager(manager: &str, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    if manager.len() > FIELD_MANAGER_MAX_LENGTH {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_MAX_LENGTH));
    }
    for (position, c) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let message = format!("invalid character U+{:04X} (at position {position})", u32::from(c));
        errors.push(FieldError::invalid(path, manager, message));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PATH: Path<'_> = Path::root("m");

    fn messages(errors: &ErrorList) -> Vec<String> {
        let short =
            |error: &FieldError| error.to_string().split(" (e.g.").next().unwrap_or_default().to_owned();
        errors.iter().map(short).collect()
    }

    #[test]
    fn invalid_labels_and_annotations_are_rejected() {
        let errors = validate_labels([("a/b", "c"), ("-", "_")], &PATH);
        let rule = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
        assert_eq!(
            messages(&errors),
            [
                format!("m: Invalid value: \"-\": name part {rule}"),
                format!(
                    "m: Invalid value: \"_\": a valid label must be an empty string or consist of{}",
                    &rule[15..]
                ),
            ]
        );
        assert!(validate_annotations([("A.b/c", "-- anything")], &PATH).is_empty());
        let large = "x".repeat(TOTAL_ANNOTATION_SIZE_LIMIT - 1);
        assert!(validate_annotations([("a", large.as_str())], &PATH).is_empty());
        let errors = validate_annotations([("ab", large.as_str())], &PATH);
        assert_eq!(messages(&errors), ["m: Too long: may not be more than 262144 bytes"]);
    }

    #[test]
    fn invalid_owner_references_are_rejected() {
        let owner = OwnerReference::controller("apps/v1", "ReplicaSet", "x", "1");
        assert!(validate_owner_references(&[owner], &PATH).is_empty());
        assert_eq!(
            messages(&validate_owner_references(&[OwnerReference::default()], &PATH)),
            [
                "m.apiVersion: Invalid value: \"\": version must not be empty",
                "m.kind: Invalid value: \"\": must not be empty",
                "m.name: Invalid value: \"\": must not be empty",
                "m.uid: Invalid value: \"\": must not be empty",
            ]
        );
        let event = OwnerReference { api_version: "v1", kind: "Event", name: "x", uid: "1", ..owner };
        let event = OwnerReference { controller: None, block_owner_deletion: None, ..event };
        assert_eq!(
            messages(&validate_owner_references(&[event], &PATH)),
            [
                r#"m: Invalid value: {"apiVersion":"v1","kind":"Event","name":"x","uid":"1"}: /v1, Kind=Event is disallowed from being an owner"#
            ]
        );
        let errors =
            messages(&validate_owner_references(&[owner, OwnerReference { name: "y", ..owner }], &PATH));
        let end = "Only one reference can have Controller set to true. Found \"true\" in references for ReplicaSet/x and ReplicaSet/y";
        assert!(errors[0].ends_with(end), "{errors:?}");
        assert!(errors[0].starts_with(r#"m: Invalid value: [{"apiVersion":"apps/v1","kind":"#), "{errors:?}");
    }

    #[test]
    fn invalid_finalizers_are_rejected() {
        assert!(validate_finalizers(&["kubernetes", "a/b"], &PATH).is_empty());
        assert_eq!(
            messages(&validate_finalizers(&["orphan", "foregroundDeletion"], &PATH)),
            [
                r#"m: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set"#
            ]
        );
        assert_eq!(messages(&validate_finalizers(&["-"], &PATH)).len(), 1);
    }

    #[test]
    fn invalid_field_manager_is_rejected() {
        let entries = [
            json!({"operation": "Apply", "fieldsType": "FieldsV1", "manager": "kubectl"}),
            json!({"operation": "Delete", "fieldsType": "V2", "manager": "a\u{7}", "subresource": "x".repeat(257)}),
        ];
        assert_eq!(
            messages(&validate_managed_fields(&entries, &PATH)),
            [
                "m[1].operation: Invalid value: \"Delete\": must be `Apply` or `Update`",
                "m[1].fieldsType: Invalid value: \"V2\": must be `FieldsV1`",
                "m[1].manager: Invalid value: \"a\\a\": invalid character U+0007 (at position 1)",
                "m[1].subresource: Too long: may not be more than 256 bytes",
            ]
        );
        let errors = validate_field_manager(&"x".repeat(129), &PATH);
        assert_eq!(messages(&errors), ["m: Too long: may not be more than 128 bytes"]);
    }
}
