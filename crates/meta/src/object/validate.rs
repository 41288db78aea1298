//! Validation of object metadata, common to all kinds.

use serde::Serialize;

use super::parts::{
    validate_annotations, validate_finalizers, validate_labels, validate_managed_fields,
    validate_no_new_finalizers, validate_owner_references,
};
use super::{Meta, OwnerReference};
use crate::field::{BadValue, ErrorList, FieldError, Path};
use crate::name::{self, Messages, NameRule};

/// Validates the metadata of a new or updated object, after name generation.
pub fn validate_object_meta(meta: Meta<'_>, namespaced: bool, rule: NameRule, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    if !meta.generate_name().is_empty() {
        let messages = rule(meta.generate_name(), true);
        errors.extend(invalid(&path.child("generateName"), meta.generate_name(), messages));
    }
    if meta.name().is_empty() {
        errors.push(FieldError::required(&path.child("name"), "name or generateName is required"));
    } else {
        errors.extend(invalid(&path.child("name"), meta.name(), rule(meta.name(), false)));
    }
    errors.extend(validate_namespace(meta.namespace(), namespaced, &path.child("namespace")));
    if meta.generation() < 0 {
        let message = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("generation"), meta.generation(), message));
    }
    errors.extend(validate_common(meta, path));
    let finalizers: Vec<&str> = meta.finalizers().collect();
    errors.extend(validate_finalizers(&finalizers, &path.child("finalizers")));
    errors.extend(validate_managed_fields(meta.managed_fields(), &path.child("managedFields")));
    errors
}

/// Validates the changes of an update to the metadata of an object.
pub fn validate_object_meta_update(new: Meta<'_>, old: Meta<'_>, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    if old.is_deleting() {
        let path = path.child("finalizers");
        errors.extend(validate_no_new_finalizers(new.finalizers(), old.finalizers(), &path));
    }
    if new.resource_version().is_empty() {
        let message = "must be specified for an update";
        errors.push(FieldError::invalid(&path.child("resourceVersion"), "", message));
    }
    if new.generation() < old.generation() {
        let path = path.child("generation");
        errors.push(FieldError::invalid(&path, new.generation(), "must not be decremented"));
    }
    errors.extend(immutable(&path.child("name"), new.name() == old.name(), || new.name().into()));
    let same = new.namespace() == old.namespace();
    errors.extend(immutable(&path.child("namespace"), same, || new.namespace().into()));
    errors.extend(immutable(&path.child("uid"), new.uid() == old.uid(), || BadValue::named(new.uid())));
    let (created, was) = (new.creation_timestamp(), old.creation_timestamp());
    errors.extend(immutable(&path.child("creationTimestamp"), created == was, || optional_value(created)));
    let (deleted, was) = (new.deletion_timestamp(), old.deletion_timestamp());
    errors.extend(immutable(&path.child("deletionTimestamp"), deleted == was, || optional_value(deleted)));
    let (grace, was) = (new.deletion_grace_period_seconds(), old.deletion_grace_period_seconds());
    errors
        .extend(immutable(&path.child("deletionGracePeriodSeconds"), grace == was, || optional_value(grace)));
    errors.extend(validate_common(new, path));
    errors.extend(validate_managed_fields(new.managed_fields(), &path.child("managedFields")));
    errors
}

/// Returns an error if an immutable field has changed.
pub fn immutable(path: &Path<'_>, same: bool, found: impl FnOnce() -> BadValue) -> Option<FieldError> {
    (!same).then(|| FieldError::invalid(path, found(), "field is immutable"))
}

/// Formats the value of an optional field as JSON.
fn optional_value(value: Option<impl Serialize>) -> BadValue {
    BadValue::json(&serde_json::to_value(value).unwrap_or_default())
}

fn validate_namespace(namespace: &str, namespaced: bool, path: &Path<'_>) -> ErrorList {
    match (namespaced, namespace) {
        (true, "") => FieldError::required(path, "").into(),
        (true, namespace) => invalid(path, namespace, name::dns1123_label(namespace)).collect(),
        (false, "") => ErrorList::new(),
        (false, _) => FieldError::forbidden(path, "not allowed on this type").into(),
    }
}

/// Validation common to create and update.
fn validate_common(meta: Meta<'_>, path: &Path<'_>) -> ErrorList {
    let labels = meta.labels().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    let mut errors = validate_labels(labels, &path.child("labels"));
    let annotations = meta.annotations().into_iter().flatten();
    let annotations = annotations.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    errors.extend(validate_annotations(annotations, &path.child("annotations")));
    let owners: Vec<OwnerReference<'_>> = meta.owner_references().collect();
    errors.extend(validate_owner_references(&owners, &path.child("ownerReferences")));
    errors
}

/// Returns one error per message.
pub(super) fn invalid(path: &Path<'_>, value: &str, messages: Messages) -> impl Iterator<Item = FieldError> {
    messages.into_iter().map(move |message| FieldError::invalid(path, value, message))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const METADATA: Path<'_> = Path::root("metadata");

    fn create(metadata: Value, namespaced: bool) -> Vec<String> {
        let object = json!({"metadata": metadata});
        let rule = name::object_dns_subdomain;
        let errors = validate_object_meta(Meta::of(&object), namespaced, rule, &METADATA);
        errors.iter().map(ToString::to_string).collect()
    }

    fn update(new: Value, old: Value) -> Vec<String> {
        let (new, old) = (json!({"metadata": new}), json!({"metadata": old}));
        let errors = validate_object_meta_update(Meta::of(&new), Meta::of(&old), &METADATA);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn invalid_name_or_namespace_is_rejected() {
        assert!(create(json!({"name": "x", "namespace": "n"}), true).is_empty());
        assert!(create(json!({"name": "x"}), false).is_empty());
        assert_eq!(
            create(json!({}), true),
            [
                "metadata.name: Required value: name or generateName is required",
                "metadata.namespace: Required value"
            ]
        );
        assert_eq!(
            create(json!({"name": "x", "namespace": "n", "generation": -1}), false),
            [
                "metadata.namespace: Forbidden: not allowed on this type",
                "metadata.generation: Invalid value: -1: must be greater than or equal to 0"
            ]
        );
        assert_eq!(
            create(json!({"name": "x", "namespace": "n.m"}), true),
            ["metadata.namespace: Invalid value: \"n.m\": must not contain dots"]
        );
        let bad = create(json!({"name": "X", "generateName": "XY-"}), false);
        assert!(bad[0].starts_with("metadata.generateName: Invalid value: \"XY-\": a lowercase"), "{bad:?}");
        assert!(bad[1].starts_with("metadata.name: Invalid value: \"X\": a lowercase"), "{bad:?}");
    }

    #[test]
    fn update_of_immutable_metadata_is_rejected() {
        let old = json!({"name": "x", "namespace": "n", "uid": "1", "resourceVersion": "1", "generation": 2,
            "creationTimestamp": "1970-01-01T00:00:00Z"});
        assert!(update(old.clone(), old.clone()).is_empty());
        assert_eq!(
            update(
                json!({"name": "y", "uid": "2", "deletionTimestamp": "1970-01-01T00:00:00Z"}),
                old.clone()
            ),
            [
                "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
                "metadata.generation: Invalid value: 0: must not be decremented",
                "metadata.name: Invalid value: \"y\": field is immutable",
                "metadata.namespace: Invalid value: \"\": field is immutable",
                "metadata.uid: Invalid value: \"2\": field is immutable",
                "metadata.creationTimestamp: Invalid value: null: field is immutable",
                "metadata.deletionTimestamp: Invalid value: \"1970-01-01T00:00:00Z\": field is immutable",
            ]
        );
    }

    #[test]
    fn new_finalizer_on_deleting_object_is_rejected() {
        let old = json!({"name": "x", "resourceVersion": "1", "finalizers": ["a/b"],
            "deletionTimestamp": "1970-01-01T00:00:00Z"});
        let mut new = old.clone();
        new["finalizers"] = json!(["a/d", "a/b", "a/c"]);
        assert_eq!(
            update(new, old),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a/c\", \"a/d\"}"
            ]
        );
    }
}
