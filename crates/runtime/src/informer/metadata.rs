//! View of the metadata that most controllers need.

use coracle_base::Timestamp;
use coracle_meta::time;
use serde::{Deserialize, Serialize};

use super::labels::Labels;
use super::view::{Metadata, View};

/// Metadata with owners, labels and annotations. `managedFields` and the like are left out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Wire")]
pub struct ObjectMetadata {
    /// The basic metadata that every cache needs.
    pub plain: Metadata,
    /// Number of changes to the spec.
    pub generation: i64,
    /// When the object was created.
    pub creation_timestamp: Timestamp,
    /// Grace period, once the deletion has begun.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Labels of the object.
    pub labels: Labels,
    /// Annotations of the object.
    pub annotations: Labels,
    /// Owners of the object.
    pub owner_references: Box<[OwnerReference]>,
    /// Finalizers that must be removed before the object is.
    pub finalizers: Box<[Box<str>]>,
}

/// An owner reference in the metadata of a dependent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Group and version of the owner.
    pub api_version: Box<str>,
    /// Kind of the owner.
    pub kind: Box<str>,
    /// Name of the owner.
    pub name: Box<str>,
    /// Uid of the owner.
    pub uid: Box<str>,
    /// True for the managing controller; at most one owner is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// True if foreground deletion of the owner waits for this dependent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl ObjectMetadata {
    /// Name of the object.
    pub fn name(&self) -> &str {
        &self.plain.name
    }

    /// Namespace of the object; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        &self.plain.namespace
    }

    /// Uid of the object.
    pub fn uid(&self) -> &str {
        &self.plain.uid
    }

    /// Resource version of the cached state.
    pub fn resource_version(&self) -> &str {
        &self.plain.resource_version
    }

    /// True once the deletion has begun.
    pub fn is_terminating(&self) -> bool {
        self.plain.deletion_timestamp.is_some()
    }

    /// When the grace period ends or ended, once the deletion has begun.
    pub fn deletion_timestamp(&self) -> Option<Timestamp> {
        self.plain.deletion_timestamp.as_deref().map(timestamp)
    }

    /// The owner reference of the managing controller.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller == Some(true))
    }

    /// True if the object with this uid is the managing controller.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| *owner.uid == *uid)
    }

    /// True if the object has this finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| **name == *finalizer)
    }
}

/// Parses a timestamp of the API. Returns the epoch for invalid text, which no server sends.
pub fn timestamp(text: &str) -> Timestamp {
    let (seconds, nanos) = time::parse(text, time::Layout::Seconds).unwrap_or_default();
    let millis = seconds.saturating_mul(1000).saturating_add(i64::from(nanos / 1_000_000));
    Timestamp::from_millis(u64::try_from(millis).unwrap_or_default())
}

/// Formats a timestamp as the API does, with a precision of one second.
pub fn rfc3339(at: Timestamp) -> String {
    time::Time(i64::try_from(at.as_millis() / 1000).unwrap_or(i64::MAX)).to_string()
}

/// A view of the metadata with owners, labels and annotations.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PartialObject {
    /// The metadata.
    pub metadata: ObjectMetadata,
}

impl View for PartialObject {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

/// The wire format, field by field: with `serde(flatten)` all unneeded fields would be buffered in memory first.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    name: Box<str>,
    namespace: Box<str>,
    uid: Box<str>,
    resource_version: Box<str>,
    generation: i64,
    creation_timestamp: Option<Box<str>>,
    deletion_timestamp: Option<Box<str>>,
    deletion_grace_period_seconds: Option<i64>,
    labels: Labels,
    annotations: Labels,
    owner_references: Option<Box<[OwnerReference]>>,
    finalizers: Option<Box<[Box<str>]>>,
}

impl From<Wire> for ObjectMetadata {
    fn from(wire: Wire) -> Self {
        let Wire { name, namespace, uid, resource_version, deletion_timestamp, .. } = wire;
        Self {
            plain: Metadata { name, namespace, uid, resource_version, deletion_timestamp },
            generation: wire.generation,
            creation_timestamp: wire.creation_timestamp.as_deref().map(timestamp).unwrap_or_default(),
            deletion_grace_period_seconds: wire.deletion_grace_period_seconds,
            labels: wire.labels,
            annotations: wire.annotations,
            owner_references: wire.owner_references.unwrap_or_default(),
            finalizers: wire.finalizers.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_holds_owners_labels_and_finalizers() {
        let owners = json!([
            {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u1"},
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u2", "controller": true},
        ]);
        let object: PartialObject = serde_json::from_value(json!({"metadata": {
            "name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 2,
            "creationTimestamp": "1970-01-01T00:00:02Z", "deletionTimestamp": null,
            "labels": {"app": "x"}, "annotations": null, "ownerReferences": owners, "finalizers": ["a/b"],
            "managedFields": [{"manager": "kubectl"}],
        }}))
        .unwrap();
        let metadata = &object.metadata;
        assert_eq!((metadata.name(), metadata.namespace(), metadata.generation), ("p", "ns", 2));
        assert_eq!(metadata.creation_timestamp, Timestamp::from_millis(2000));
        assert!(metadata.is_controlled_by("u2") && !metadata.is_controlled_by("u1"));
        assert!(metadata.has_finalizer("a/b") && !metadata.is_terminating());
        assert_eq!(metadata.labels.get("app"), Some("x"));
    }
}
