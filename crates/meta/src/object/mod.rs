//! Type and object metadata, common to all kinds.
//!
//! Objects are JSON trees; this module provides views of them. A field that is absent, null or of
//! the wrong type reads as unset: the decoders have already rejected objects with wrong types.

mod edit;
mod owner;
mod parts;
mod system;
mod validate;

use serde_json::{Map, Value};

pub use edit::MetaMut;
pub use owner::OwnerReference;
pub use parts::{
    FIELD_MANAGER_MAX_LENGTH, TOTAL_ANNOTATION_SIZE_LIMIT, validate_annotations, validate_field_manager,
    validate_finalizers, validate_labels, validate_managed_fields, validate_no_new_finalizers,
    validate_owner_references,
};
pub use system::{
    NamespaceMismatch, ensure_namespace, fill_system_fields, keep_system_fields, wipe_system_fields,
};
pub use validate::{immutable, validate_object_meta, validate_object_meta_update};

use crate::gvk::GroupVersionKind;
use crate::time::Time;

/// The finalizer that orphans the dependents of an object.
pub const FINALIZER_ORPHAN_DEPENDENTS: &str = "orphan";

/// The finalizer of foreground deletion: dependents are deleted first.
pub const FINALIZER_DELETE_DEPENDENTS: &str = "foregroundDeletion";

/// Returns `apiVersion` and `kind` of an object.
pub fn group_version_kind(object: &Value) -> GroupVersionKind {
    let field = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
    GroupVersionKind::from_api_version(field("apiVersion"), field("kind"))
}

/// A view of the metadata of an object.
#[derive(Clone, Copy, Debug)]
pub struct Meta<'a>(Option<&'a Map<String, Value>>);

impl<'a> Meta<'a> {
    /// Returns the metadata of an object.
    pub fn of(object: &'a Value) -> Self {
        Self(object.get("metadata").and_then(Value::as_object))
    }

    /// Creates a view of a metadata map.
    pub fn from_map(metadata: &'a Map<String, Value>) -> Self {
        Self(Some(metadata))
    }

    /// Returns a field; `None` if it is null.
    pub fn field(self, name: &str) -> Option<&'a Value> {
        self.0?.get(name).filter(|value| !value.is_null())
    }

    fn text(self, name: &str) -> &'a str {
        self.field(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns `metadata.name`; empty if unset.
    pub fn name(self) -> &'a str {
        self.text("name")
    }

    /// Returns `metadata.generateName`; empty if unset.
    pub fn generate_name(self) -> &'a str {
        self.text("generateName")
    }

    /// Returns `metadata.namespace`; empty if unset.
    pub fn namespace(self) -> &'a str {
        self.text("namespace")
    }

    /// Returns `metadata.uid`, which distinguishes objects that had the same name; empty if unset.
    pub fn uid(self) -> &'a str {
        self.text("uid")
    }

    /// Returns `metadata.resourceVersion`; empty if unset.
    pub fn resource_version(self) -> &'a str {
        self.text("resourceVersion")
    }

    /// Returns `metadata.generation`, the number of changes of the spec; zero if unset.
    pub fn generation(self) -> i64 {
        self.field("generation").and_then(Value::as_i64).unwrap_or_default()
    }

    /// Returns `metadata.creationTimestamp`.
    pub fn creation_timestamp(self) -> Option<Time> {
        self.time("creationTimestamp")
    }

    /// Returns `metadata.deletionTimestamp`.
    pub fn deletion_timestamp(self) -> Option<Time> {
        self.time("deletionTimestamp")
    }

    fn time(self, name: &str) -> Option<Time> {
        let time: Time = self.field(name)?.as_str()?.parse().ok()?;
        (!time.is_zero()).then_some(time)
    }

    /// Returns true if the object is being deleted.
    pub fn is_deleting(self) -> bool {
        self.field("deletionTimestamp").is_some()
    }

    /// Returns `metadata.deletionGracePeriodSeconds`.
    pub fn deletion_grace_period_seconds(self) -> Option<i64> {
        self.field("deletionGracePeriodSeconds")?.as_i64()
    }

    /// Returns `metadata.labels`.
    pub fn labels(self) -> Option<&'a Map<String, Value>> {
        self.field("labels")?.as_object()
    }

    /// Returns the value of a label.
    pub fn label(self, key: &str) -> Option<&'a str> {
        self.labels()?.get(key)?.as_str()
    }

    /// Returns `metadata.annotations`.
    pub fn annotations(self) -> Option<&'a Map<String, Value>> {
        self.field("annotations")?.as_object()
    }

    /// Returns the value of an annotation.
    pub fn annotation(self, key: &str) -> Option<&'a str> {
        self.annotations()?.get(key)?.as_str()
    }

    /// Iterates over `metadata.finalizers`.
    pub fn finalizers(self) -> impl Iterator<Item = &'a str> {
        self.list("finalizers").iter().filter_map(Value::as_str)
    }

    /// Returns true if the object has this finalizer.
    pub fn has_finalizer(self, name: &str) -> bool {
        self.finalizers().any(|finalizer| finalizer == name)
    }

    /// Iterates over `metadata.ownerReferences`.
    pub fn owner_references(self) -> impl Iterator<Item = OwnerReference<'a>> {
        self.list("ownerReferences").iter().map(OwnerReference::of)
    }

    /// Returns the owner reference with `controller: true`.
    pub fn controller(self) -> Option<OwnerReference<'a>> {
        self.owner_references().find(|owner| owner.controller == Some(true))
    }

    /// Returns `metadata.managedFields`.
    pub fn managed_fields(self) -> &'a [Value] {
        self.list("managedFields")
    }

    fn list(self, name: &str) -> &'a [Value] {
        self.field(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_fields_are_returned() {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
            "name": "x", "generateName": "g", "namespace": "n", "uid": "u", "resourceVersion": "5", "generation": 2,
            "creationTimestamp": "1970-01-01T00:00:01Z", "deletionTimestamp": "1970-01-01T00:00:02Z",
            "deletionGracePeriodSeconds": 30, "labels": {"a": "1"}, "annotations": {"b": "2"}, "finalizers": ["f"],
            "ownerReferences": [{"uid": "1"}, {"uid": "2", "controller": true}], "managedFields": [{}],
        }});
        let meta = Meta::of(&object);
        assert_eq!((meta.name(), meta.generate_name(), meta.namespace()), ("x", "g", "n"));
        assert_eq!((meta.uid(), meta.resource_version(), meta.generation()), ("u", "5", 2));
        assert_eq!((meta.creation_timestamp(), meta.deletion_timestamp()), (Some(Time(1)), Some(Time(2))));
        assert_eq!((meta.is_deleting(), meta.deletion_grace_period_seconds()), (true, Some(30)));
        assert_eq!((meta.label("a"), meta.annotation("b")), (Some("1"), Some("2")));
        assert!(meta.has_finalizer("f") && !meta.has_finalizer("g"));
        assert_eq!(meta.controller().unwrap().uid, "2");
        assert_eq!(meta.managed_fields().len(), 1);
        assert_eq!(group_version_kind(&object), GroupVersionKind::from_static("apps", "v1", "Deployment"));
    }

    #[test]
    fn absent_or_null_field_reads_as_unset() {
        for object in [json!({}), json!(null), json!({"metadata": {"name": 1, "creationTimestamp": null}})] {
            let meta = Meta::of(&object);
            assert_eq!((meta.name(), meta.generation(), meta.creation_timestamp()), ("", 0, None));
            assert!(meta.labels().is_none() && meta.finalizers().next().is_none() && !meta.is_deleting());
        }
    }
}
