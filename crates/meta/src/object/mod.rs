//! What all objects have in common: their kind and their metadata.
//!
//! Objects are JSON trees; these are views of them. A field that is absent, null or of
//! another type reads as unset: decoding has refused such objects before.

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

/// Finalizer of an object whose dependents are to be left alone.
pub const FINALIZER_ORPHAN_DEPENDENTS: &str = "orphan";

/// Finalizer of an object whose dependents are to be deleted first.
pub const FINALIZER_DELETE_DEPENDENTS: &str = "foregroundDeletion";

/// `apiVersion` and `kind` of an object.
pub fn group_version_kind(object: &Value) -> GroupVersionKind {
    let field = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
    GroupVersionKind::from_api_version(field("apiVersion"), field("kind"))
}

/// The metadata of an object.
#[derive(Clone, Copy, Debug)]
pub struct Meta<'a>(Option<&'a Map<String, Value>>);

impl<'a> Meta<'a> {
    /// Of an object.
    pub fn of(object: &'a Value) -> Self {
        Self(object.get("metadata").and_then(Value::as_object))
    }

    /// From the metadata itself.
    pub fn from_map(metadata: &'a Map<String, Value>) -> Self {
        Self(Some(metadata))
    }

    /// A field of it.
    pub fn field(self, name: &str) -> Option<&'a Value> {
        self.0?.get(name).filter(|value| !value.is_null())
    }

    fn text(self, name: &str) -> &'a str {
        self.field(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Its name; empty when unset.
    pub fn name(self) -> &'a str {
        self.text("name")
    }

    /// From what its name is to be made; empty when unset.
    pub fn generate_name(self) -> &'a str {
        self.text("generateName")
    }

    /// Its namespace; empty when unset.
    pub fn namespace(self) -> &'a str {
        self.text("namespace")
    }

    /// What tells it from others that had its name; empty when unset.
    pub fn uid(self) -> &'a str {
        self.text("uid")
    }

    /// When it was last changed; empty when unset.
    pub fn resource_version(self) -> &'a str {
        self.text("resourceVersion")
    }

    /// How often its desired state has changed; zero when unset.
    pub fn generation(self) -> i64 {
        self.field("generation").and_then(Value::as_i64).unwrap_or_default()
    }

    /// When it was created.
    pub fn creation_timestamp(self) -> Option<Time> {
        self.time("creationTimestamp")
    }

    /// When it was, or will be, deleted.
    pub fn deletion_timestamp(self) -> Option<Time> {
        self.time("deletionTimestamp")
    }

    fn time(self, name: &str) -> Option<Time> {
        let time: Time = self.field(name)?.as_str()?.parse().ok()?;
        (!time.is_zero()).then_some(time)
    }

    /// Whether it is being deleted.
    pub fn is_deleting(self) -> bool {
        self.field("deletionTimestamp").is_some()
    }

    /// How long it may take to end.
    pub fn deletion_grace_period_seconds(self) -> Option<i64> {
        self.field("deletionGracePeriodSeconds")?.as_i64()
    }

    /// Its labels.
    pub fn labels(self) -> Option<&'a Map<String, Value>> {
        self.field("labels")?.as_object()
    }

    /// One label.
    pub fn label(self, key: &str) -> Option<&'a str> {
        self.labels()?.get(key)?.as_str()
    }

    /// Its annotations.
    pub fn annotations(self) -> Option<&'a Map<String, Value>> {
        self.field("annotations")?.as_object()
    }

    /// One annotation.
    pub fn annotation(self, key: &str) -> Option<&'a str> {
        self.annotations()?.get(key)?.as_str()
    }

    /// Who has something to do before it may go.
    pub fn finalizers(self) -> impl Iterator<Item = &'a str> {
        self.list("finalizers").iter().filter_map(Value::as_str)
    }

    /// Whether it has this finalizer.
    pub fn has_finalizer(self, name: &str) -> bool {
        self.finalizers().any(|finalizer| finalizer == name)
    }

    /// On whom it depends.
    pub fn owner_references(self) -> impl Iterator<Item = OwnerReference<'a>> {
        self.list("ownerReferences").iter().map(OwnerReference::of)
    }

    /// The one owner that manages it.
    pub fn controller(self) -> Option<OwnerReference<'a>> {
        self.owner_references().find(|owner| owner.controller == Some(true))
    }

    /// Who set which fields.
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
    fn fields_are_read() {
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
    fn what_is_absent_reads_as_unset() {
        for object in [json!({}), json!(null), json!({"metadata": {"name": 1, "creationTimestamp": null}})] {
            let meta = Meta::of(&object);
            assert_eq!((meta.name(), meta.generation(), meta.creation_timestamp()), ("", 0, None));
            assert!(meta.labels().is_none() && meta.finalizers().next().is_none() && !meta.is_deleting());
        }
    }
}
