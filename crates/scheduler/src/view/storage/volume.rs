//! Cached representation of a PersistentVolume.

use coracle_runtime::informer::{Metadata, View};
use serde::Deserialize;

use super::claim::Claim;
use super::{CLASS_ANNOTATION, storage_of};
use crate::view::affinity::{NodeSelector, RawNodeSelector};
use crate::view::metadata::RawMetadata;
use crate::view::resources::ResourceList;
use coracle_runtime::informer::Labels;

/// A PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawVolume")]
pub struct PersistentVolume {
    pub(crate) metadata: Metadata,
    pub(crate) labels: Labels,
    pub(crate) class: Box<str>,
    pub(crate) bytes: i64,
    pub(crate) access_modes: Box<[Box<str>]>,
    pub(crate) is_block: bool,
    pub(crate) attributes_class: Box<str>,
    pub(crate) claim: Option<ClaimRef>,
    /// Nodes that can access the volume; none for all nodes.
    pub(crate) node_affinity: Option<NodeSelector>,
    /// True if its phase is `Available`.
    pub(crate) is_available: bool,
    pub(crate) csi: Option<Csi>,
}

/// The claim a volume is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimRef {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    /// Empty if the volume is pre-bound to a claim of that name.
    pub(crate) uid: Box<str>,
}

/// The CSI driver of a volume, and the driver's handle for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Csi {
    pub(crate) driver: Box<str>,
    pub(crate) volume_handle: Box<str>,
}

impl PersistentVolume {
    /// True if it can be accessed from a node with these labels.
    pub(crate) fn is_reachable(&self, node: &Labels) -> bool {
        self.node_affinity.as_ref().is_none_or(|affinity| affinity.matches_labels(node))
    }

    /// True if it is bound or pre-bound to this claim.
    pub(crate) fn is_of(&self, claim: &Claim) -> bool {
        self.claim.as_ref().is_some_and(|owner| {
            owner.name == claim.metadata.name
                && owner.namespace == claim.metadata.namespace
                && (owner.uid.is_empty() || owner.uid == claim.metadata.uid)
        })
    }
}

impl View for PersistentVolume {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawVolume {
    metadata: RawMetadata<Labels>,
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    storage_class_name: Box<str>,
    capacity: ResourceList,
    access_modes: Box<[Box<str>]>,
    volume_mode: Option<Box<str>>,
    volume_attributes_class_name: Option<Box<str>>,
    claim_ref: Option<ClaimRef>,
    node_affinity: Option<RawNodeAffinity>,
    csi: Option<Csi>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNodeAffinity {
    required: Option<RawNodeSelector>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    phase: Box<str>,
}

impl From<RawVolume> for PersistentVolume {
    fn from(mut raw: RawVolume) -> Self {
        let class = raw.metadata.annotations.get(CLASS_ANNOTATION).map(Box::from);
        let required = raw.spec.node_affinity.and_then(|affinity| affinity.required);
        Self {
            class: class.unwrap_or(raw.spec.storage_class_name),
            metadata: raw.metadata.take(),
            labels: raw.metadata.labels,
            bytes: storage_of(&raw.spec.capacity),
            access_modes: raw.spec.access_modes,
            is_block: raw.spec.volume_mode.as_deref() == Some("Block"),
            attributes_class: raw.spec.volume_attributes_class_name.unwrap_or_default(),
            claim: raw.spec.claim_ref,
            node_affinity: required.map(NodeSelector::from),
            is_available: &*raw.status.phase == "Available",
            csi: raw.spec.csi,
        }
    }
}
