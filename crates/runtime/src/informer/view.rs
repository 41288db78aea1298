//! Views: cached representations of objects, reduced to the fields that controllers need.
//!
//! A view is decoded directly from the server's response; fields that it does not name are skipped and cost nothing.
//! Ten thousand namespaces take about two megabytes as views, and fifteen as whole objects.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A cached representation of an object.
pub trait View: DeserializeOwned + Clone + Send + Sync + 'static {
    /// Identity and version of the object.
    fn metadata(&self) -> &Metadata;
}

/// The part of an object's metadata that every cache needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name of the object.
    pub name: Box<str>,
    /// Namespace of the object; empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// Uid, which differs from that of an earlier object of the same name.
    pub uid: Box<str>,
    /// Resource version of the cached state.
    pub resource_version: Box<str>,
    /// Set once the deletion has begun.
    pub deletion_timestamp: Option<Box<str>>,
}

/// A view of the basic metadata only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct MetadataOnly {
    /// The metadata.
    pub metadata: Metadata,
}

impl MetadataOnly {
    /// True once the deletion has begun.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

impl View for MetadataOnly {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
