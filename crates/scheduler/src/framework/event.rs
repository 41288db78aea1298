//! What happens in a cluster that can make a pod schedulable that was not.

use std::sync::Arc;

use coracle_runtime::ObjectKey;

use crate::view::node::NodeChanges;
use crate::view::storage::{Claim, CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, StorageClass};
use crate::view::{Node, Pod};

/// What happened. Where there is an old and a new version, both are of one object.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClusterEvent {
    /// A node has come.
    NodeAdded(Arc<Node>),
    /// A node has changed.
    NodeChanged {
        /// What it was.
        old: Arc<Node>,
        /// What it is.
        new: Arc<Node>,
        /// What of it is different.
        changes: NodeChanges,
    },
    /// A node is gone.
    NodeGone(Arc<Node>),
    /// A pod has come to a node.
    PodPlaced(Arc<Pod>),
    /// A pod on a node has changed.
    PodChanged {
        /// What it was.
        old: Arc<Pod>,
        /// What it is.
        new: Arc<Pod>,
        /// What of it is different.
        changes: PodChanges,
    },
    /// A pod that had a node, or soon would have, is gone or goes elsewhere.
    PodGone(Arc<Pod>),
    /// The pod itself, which has no node.
    PendingChanged {
        /// What it was.
        old: Arc<Pod>,
        /// What it is.
        new: Arc<Pod>,
        /// What of it is different.
        changes: PodChanges,
    },
    /// A PersistentVolumeClaim has come or changed.
    ClaimChanged {
        /// What it was; none if it was not.
        old: Option<Arc<Claim>>,
        /// What it is.
        new: Arc<Claim>,
    },
    /// A PersistentVolume has come or changed.
    VolumeChanged {
        /// What it was; none if it was not.
        old: Option<Arc<PersistentVolume>>,
        /// What it is.
        new: Arc<PersistentVolume>,
    },
    /// A StorageClass has come or changed.
    ClassChanged {
        /// What it was; none if it was not.
        old: Option<Arc<StorageClass>>,
        /// What it is.
        new: Arc<StorageClass>,
    },
    /// A CSINode has come or changed.
    CsiNodeChanged {
        /// What it was; none if it was not.
        old: Option<Arc<CsiNode>>,
        /// What it is.
        new: Arc<CsiNode>,
    },
    /// A CSIDriver has changed.
    CsiDriverChanged {
        /// What it was.
        old: Arc<CsiDriver>,
        /// What it is.
        new: Arc<CsiDriver>,
    },
    /// A CSIStorageCapacity has come or changed.
    CapacityChanged {
        /// What it was; none if it was not.
        old: Option<Arc<CsiStorageCapacity>>,
        /// What it is.
        new: Arc<CsiStorageCapacity>,
    },
    /// A VolumeAttachment is gone.
    VolumeDetached,
    /// Something else has come, changed or gone that a plugin
    /// [follows](crate::PluginContext::follow).
    Custom {
        /// What the plugin calls the kind.
        kind: &'static str,
        /// Which object.
        key: ObjectKey,
    },
}

/// What of a pod has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodChanges {
    /// Its labels.
    pub labels: bool,
    /// It wants less of something.
    pub scaled_down: bool,
    /// What it tolerates.
    pub tolerations: bool,
    /// Nothing holds it back any more.
    pub gates_gone: bool,
}

impl PodChanges {
    pub(crate) fn between(old: &Pod, new: &Pod) -> Self {
        Self {
            labels: old.labels != new.labels,
            scaled_down: new.requests.is_less_of_any_than(&old.requests),
            tolerations: old.tolerations.len() != new.tolerations.len(),
            gates_gone: new.gates.is_empty() && !old.gates.is_empty(),
        }
    }

    /// Whether any of it has.
    pub(crate) fn any(self) -> bool {
        self != Self::default()
    }

    fn label_if_assigned(self) -> &'static str {
        match self {
            Self { labels: true, .. } => "AssignedPodUpdatePodLabel",
            Self { scaled_down: true, .. } => "AssignedPodUpdatePodScaleDown",
            Self { gates_gone: true, .. } => "AssignedPodUpdatePodSchedulingGatesEliminated",
            Self { tolerations: true, .. } => "AssignedPodUpdatePodToleration",
            _ => "AssignedPodUpdate",
        }
    }

    fn label_if_pending(self) -> &'static str {
        match self {
            Self { labels: true, .. } => "UnschedulablePodUpdatePodLabel",
            Self { scaled_down: true, .. } => "UnschedulablePodUpdatePodScaleDown",
            Self { gates_gone: true, .. } => "UnschedulablePodUpdatePodSchedulingGatesEliminated",
            Self { tolerations: true, .. } => "UnschedulablePodUpdatePodToleration",
            _ => "UnschedulablePodUpdate",
        }
    }
}

/// One name if there was nothing before, another if there was.
fn either<T>(old: &Option<Arc<T>>, added: &'static str, updated: &'static str) -> &'static str {
    if old.is_none() { added } else { updated }
}

/// What an event is about, for whoever wants to know only of some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum About {
    /// A node.
    Node,
    /// A pod that has come to a node.
    PodPlaced,
    /// A pod on a node that has changed.
    PodChanged,
    /// A pod that is on no node any more.
    PodGone,
    /// The pod itself.
    PendingPod,
    /// Volumes, and everything they need.
    Storage,
    /// Something that only a plugin knows, by its name for the kind.
    Custom(&'static str),
}

impl ClusterEvent {
    /// What upstream's metrics and logs call it.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::NodeAdded(_) => "NodeAdd",
            Self::NodeChanged { changes, .. } => changes.label(),
            Self::NodeGone(_) => "NodeDelete",
            Self::PodPlaced(_) => "AssignedPodAdd",
            Self::PodChanged { changes, .. } => changes.label_if_assigned(),
            Self::PodGone(_) => "AssignedPodDelete",
            Self::PendingChanged { changes, .. } => changes.label_if_pending(),
            Self::ClaimChanged { old, .. } => {
                either(old, "PersistentVolumeClaimAdd", "PersistentVolumeClaimUpdate")
            }
            Self::VolumeChanged { old, .. } => either(old, "PersistentVolumeAdd", "PersistentVolumeUpdate"),
            Self::ClassChanged { old, .. } => {
                either(old, "storage.k8s.io/StorageClassAdd", "storage.k8s.io/StorageClassUpdate")
            }
            Self::CsiNodeChanged { old, .. } => {
                either(old, "storage.k8s.io/CSINodeAdd", "storage.k8s.io/CSINodeUpdate")
            }
            Self::CsiDriverChanged { .. } => "storage.k8s.io/CSIDriverUpdate",
            Self::CapacityChanged { old, .. } => {
                either(old, "storage.k8s.io/CSIStorageCapacityAdd", "storage.k8s.io/CSIStorageCapacityUpdate")
            }
            Self::VolumeDetached => "storage.k8s.io/VolumeAttachmentDelete",
            Self::Custom { kind, .. } => kind,
        }
    }

    /// What it is about.
    pub fn about(&self) -> About {
        match self {
            Self::NodeAdded(_) | Self::NodeChanged { .. } | Self::NodeGone(_) => About::Node,
            Self::PodPlaced(_) => About::PodPlaced,
            Self::PodChanged { .. } => About::PodChanged,
            Self::PodGone(_) => About::PodGone,
            Self::PendingChanged { .. } => About::PendingPod,
            Self::ClaimChanged { .. }
            | Self::VolumeChanged { .. }
            | Self::ClassChanged { .. }
            | Self::CsiNodeChanged { .. }
            | Self::CsiDriverChanged { .. }
            | Self::CapacityChanged { .. }
            | Self::VolumeDetached => About::Storage,
            Self::Custom { kind, .. } => About::Custom(kind),
        }
    }

    /// The node that is there now, if a node came or changed, and what it was before.
    pub fn node(&self) -> Option<(Option<&Arc<Node>>, &Arc<Node>)> {
        match self {
            Self::NodeAdded(new) => Some((None, new)),
            Self::NodeChanged { old, new, .. } => Some((Some(old), new)),
            _ => None,
        }
    }
}
