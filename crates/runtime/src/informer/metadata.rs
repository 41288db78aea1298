//! The metadata of an object as most controllers need it.

use coracle_base::Timestamp;
use coracle_meta::time;
use serde::{Deserialize, Serialize};

use super::labels::Labels;
use super::view::{Metadata, View};

/// Metadata with what says whose an object is and how it is found. `managedFields` and the like are left out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Wire")]
pub struct ObjectMetadata {
    /// The part that caches need.
    pub plain: Metadata,
    /// Counts the changes of what is wanted.
    pub generation: i64,
    /// When it was made.
    pub creation_timestamp: Timestamp,
    /// How long it may take to end, once its deletion has begun.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// Whose it is.
    pub owner_references: Box<[OwnerReference]>,
    /// Who has to let it go before it is gone.
    pub finalizers: Box<[Box<str>]>,
}

/// A reference to an owner, as in the metadata of what is owned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Group and version of the owner.
    pub api_version: Box<str>,
    /// Its kind.
    pub kind: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its identity.
    pub uid: Box<str>,
    /// Whether the owner manages what it owns; one does at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether the owner waits for it when it is deleted in the foreground.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl ObjectMetadata {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.plain.name
    }

    /// Where it is; empty if in no namespace.
    pub fn namespace(&self) -> &str {
        &self.plain.namespace
    }

    /// Its identity.
    pub fn uid(&self) -> &str {
        &self.plain.uid
    }

    /// Which version of it.
    pub fn resource_version(&self) -> &str {
        &self.plain.resource_version
    }

    /// Whether its deletion has begun.
    pub fn is_terminating(&self) -> bool {
        self.plain.deletion_timestamp.is_some()
    }

    /// When it is or was to be gone, if its deletion has begun.
    pub fn deletion_timestamp(&self) -> Option<Timestamp> {
        self.plain.deletion_timestamp.as_deref().map(timestamp)
    }

    /// The owner that manages it.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller == Some(true))
    }

    /// Whether the object of this identity manages it.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| *owner.uid == *uid)
    }

    /// Whether somebody of this name has to let it go.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| **name == *finalizer)
    }
}

/// A time of the API; the beginning of all time if it is none, which no server sends.
pub fn timestamp(text: &str) -> Timestamp {
    let (seconds, nanos) = time::parse(text, time::Layout::Seconds).unwrap_or_default();
    let millis = seconds.saturating_mul(1000).saturating_add(i64::from(nanos / 1_000_000));
    Timestamp::from_millis(u64::try_from(millis).unwrap_or_default())
}

/// A time as the API writes it, to the second.
pub fn rfc3339(at: Timestamp) -> String {
    time::Time(i64::try_from(at.as_millis() / 1000).unwrap_or(i64::MAX)).to_string()
}

/// A view of metadata only, but all of it that matters.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PartialObject {
    /// All there is.
    pub metadata: ObjectMetadata,
}

impl View for PartialObject {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

/// What the server sends, field by field: flattened, all that is not needed would be read into memory first.
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
    fn metadata_tells_whose_an_object_is() {
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
