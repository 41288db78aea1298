//! What an informer keeps of an object: as little as its controllers need.
//!
//! A view is decoded straight from the answer of the server; fields it does not name are skipped and cost
//! nothing. Ten thousand namespaces are about two megabytes this way, and fifteen as whole objects.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Decoded from an object, and knows which one it was.
pub trait View: DeserializeOwned + Clone + Send + Sync + 'static {
    /// Which object, and which version of it.
    fn metadata(&self) -> &Metadata;
}

/// The part of the metadata of an object that caches need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Its name.
    pub name: Box<str>,
    /// Where it is; empty if in no namespace.
    pub namespace: Box<str>,
    /// Its identity: another object of the same name has another.
    pub uid: Box<str>,
    /// Which version of it.
    pub resource_version: Box<str>,
    /// Since when it is being deleted.
    pub deletion_timestamp: Option<Box<str>>,
}

/// A view of nothing but the metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct MetadataOnly {
    /// All there is.
    pub metadata: Metadata,
}

impl MetadataOnly {
    /// Whether its deletion has begun.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

impl View for MetadataOnly {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
