//! View of any object: the metadata that the graph needs.

use coracle_runtime::informer::{Metadata, OwnerReference, View};
use serde::Deserialize;

/// Finalizers that determine the deletion of dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Wire")]
pub(crate) struct Object {
    pub(crate) metadata: Metadata,
    pub(crate) owner_references: Box<[OwnerReference]>,
    pub(crate) finalizers: Box<[Box<str>]>,
}

impl Object {
    pub(crate) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| **name == *finalizer)
    }

    /// True if the object is terminating.
    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

impl View for Object {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    metadata: WireMetadata,
}

/// Field by field: with `serde(flatten)` all unneeded fields would be buffered in memory first.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireMetadata {
    name: Box<str>,
    namespace: Box<str>,
    uid: Box<str>,
    resource_version: Box<str>,
    deletion_timestamp: Option<Box<str>>,
    owner_references: Option<Box<[OwnerReference]>>,
    finalizers: Option<Box<[Box<str>]>>,
}

impl From<Wire> for Object {
    fn from(Wire { metadata }: Wire) -> Self {
        let WireMetadata { name, namespace, uid, resource_version, deletion_timestamp, .. } = metadata;
        Self {
            metadata: Metadata { name, namespace, uid, resource_version, deletion_timestamp },
            owner_references: metadata.owner_references.unwrap_or_default(),
            finalizers: metadata.finalizers.unwrap_or_default(),
        }
    }
}
