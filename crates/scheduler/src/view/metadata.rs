//! Metadata as the API server sends it, of which each view keeps a part.

use std::mem::take;

use coracle_runtime::informer::Metadata;
use serde::Deserialize;
use serde::de::IgnoredAny;

use coracle_runtime::informer::Labels;

/// The fields that views need; annotations are parsed only if a view names a type for them.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawMetadata<Annotations = IgnoredAny> {
    pub(super) name: Box<str>,
    pub(super) namespace: Box<str>,
    pub(super) resource_version: Box<str>,
    pub(super) deletion_timestamp: Option<Box<str>>,
    pub(super) uid: Box<str>,
    pub(super) generation: i64,
    pub(super) labels: Labels,
    pub(super) annotations: Annotations,
    pub(super) owner_references: Vec<RawOwner>,
}

/// An owner reference.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawOwner {
    pub(super) api_version: Box<str>,
    pub(super) kind: Box<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Box<str>,
    pub(super) controller: bool,
}

impl<Annotations> RawMetadata<Annotations> {
    /// Takes out the part that informers need.
    pub(super) fn take(&mut self) -> Metadata {
        Metadata {
            name: take(&mut self.name),
            namespace: take(&mut self.namespace),
            uid: take(&mut self.uid),
            resource_version: take(&mut self.resource_version),
            deletion_timestamp: self.deletion_timestamp.take(),
        }
    }
}
