//! Cached representation of a PersistentVolumeClaim.

use coracle_meta::selector::LabelSelector;
use coracle_meta::selector::labels::Selector;
use coracle_runtime::informer::{Metadata, View};
use serde::Deserialize;

use super::{CLASS_ANNOTATION, storage_of};
use crate::view::metadata::RawMetadata;
use crate::view::resources::ResourceList;
use crate::view::selector::parsed;
use coracle_runtime::informer::Labels;

/// Annotation with the node for which a volume has to be provisioned.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation of a claim whose binding is complete.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawClaim")]
pub struct Claim {
    pub(crate) metadata: Metadata,
    /// The UID of the pod that owns it, if it is an ephemeral volume.
    pub(crate) owner_pod: Option<Box<str>>,
    pub(crate) class: Box<str>,
    /// `spec.volumeName`; empty if it has none.
    pub(crate) volume: Box<str>,
    pub(crate) bind_completed: bool,
    pub(crate) selected_node: Option<Box<str>>,
    pub(crate) bytes: i64,
    pub(crate) selector: Option<Selector>,
    pub(crate) access_modes: Box<[Box<str>]>,
    pub(crate) is_block: bool,
    pub(crate) attributes_class: Box<str>,
    /// True if its volume was deleted.
    pub(crate) is_lost: bool,
}

impl Claim {
    /// True if its binding is complete.
    pub(crate) fn is_bound(&self) -> bool {
        !self.volume.is_empty() && self.bind_completed
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

impl View for Claim {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawClaim {
    metadata: RawMetadata<Labels>,
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    storage_class_name: Option<Box<str>>,
    volume_name: Box<str>,
    resources: RawRequests,
    selector: Option<LabelSelector>,
    access_modes: Box<[Box<str>]>,
    volume_mode: Option<Box<str>>,
    volume_attributes_class_name: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawRequests {
    requests: ResourceList,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    phase: Box<str>,
}

impl From<RawClaim> for Claim {
    fn from(mut raw: RawClaim) -> Self {
        let annotation = |key: &str| raw.metadata.annotations.get(key).map(Box::<str>::from);
        let owner =
            raw.metadata.owner_references.iter().find(|owner| owner.controller && &*owner.kind == "Pod");
        Self {
            class: annotation(CLASS_ANNOTATION).or(raw.spec.storage_class_name).unwrap_or_default(),
            bind_completed: annotation(BIND_COMPLETED).is_some(),
            selected_node: annotation(SELECTED_NODE),
            owner_pod: owner.map(|owner| owner.uid.clone()),
            metadata: raw.metadata.take(),
            volume: raw.spec.volume_name,
            bytes: storage_of(&raw.spec.resources.requests),
            selector: raw.spec.selector.as_ref().map(parsed),
            access_modes: raw.spec.access_modes,
            is_block: raw.spec.volume_mode.as_deref() == Some("Block"),
            attributes_class: raw.spec.volume_attributes_class_name.unwrap_or_default(),
            is_lost: &*raw.status.phase == "Lost",
        }
    }
}
