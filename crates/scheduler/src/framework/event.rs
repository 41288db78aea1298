//! Cluster events that can make an unschedulable pod schedulable.

use std::sync::Arc;

use coracle_runtime::ObjectKey;

use crate::view::node::NodeChanges;
use crate::view::storage::{Claim, CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, StorageClass};
use crate::view::{Node, Pod};

/// A cluster event. An old and a new version are always of the same object.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClusterEvent {
    /// A node was added.
    NodeAdded(Arc<Node>),
    /// A node changed.
    NodeChanged {
        /// The previous version.
        old: Arc<Node>,
        /// The new version.
        new: Arc<Node>,
        /// Parts that differ.
        changes: NodeChanges,
    },
    /// A node was deleted.
    NodeGone(Arc<Node>),
    /// A pod was assigned to a node.
    PodPlaced(Arc<Pod>),
    /// An assigned pod changed.
    PodChanged {
        /// The previous version.
        old: Arc<Pod>,
        /// The new version.
        new: Arc<Pod>,
        /// Parts that differ.
        changes: PodChanges,
    },
    /// An assigned or assumed pod was deleted, or is no longer on its node.
    PodGone(Arc<Pod>),
    /// An unschedulable pod itself changed.
    PendingChanged {
        /// The previous version.
        old: Arc<Pod>,
        /// The new version.
        new: Arc<Pod>,
        /// Parts that differ.
        changes: PodChanges,
    },
    /// A PersistentVolumeClaim was added or changed.
    ClaimChanged {
        /// The previous version; none if it was added.
        old: Option<Arc<Claim>>,
        /// The new version.
        new: Arc<Claim>,
    },
    /// A PersistentVolume was added or changed.
    VolumeChanged {
        /// The previous version; none if it was added.
        old: Option<Arc<PersistentVolume>>,
        /// The new version.
        new: Arc<PersistentVolume>,
    },
    /// A StorageClass was added or changed.
    ClassChanged {
        /// The previous version; none if it was added.
        old: Option<Arc<StorageClass>>,
        /// The new version.
        new: Arc<StorageClass>,
    },
    /// A CSINode was added or changed.
    CsiNodeChanged {
        /// The previous version; none if it was added.
        old: Option<Arc<CsiNode>>,
        /// The new version.
        new: Arc<CsiNode>,
    },
    /// A CSIDriver changed.
    CsiDriverChanged {
        /// The previous version.
        old: Arc<CsiDriver>,
        /// The new version.
        new: Arc<CsiDriver>,
    },
    /// A CSIStorageCapacity was added or changed.
    CapacityChanged {
        /// The previous version; none if it was added.
        old: Option<Arc<CsiStorageCapacity>>,
        /// The new version.
        new: Arc<CsiStorageCapacity>,
    },
    /// A VolumeAttachment was deleted.
    VolumeDetached,
    /// An object of a kind that a plugin watches by [its informers](crate::PluginContext::start_informers) was added,
    /// changed or deleted.
    Custom {
        /// The plugin's name for the kind.
        kind: &'static str,
        /// Key of the object.
        key: ObjectKey,
    },
}

/// Parts of a pod that changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodChanges {
    /// The labels.
    pub labels: bool,
    /// A resource request decreased.
    pub scaled_down: bool,
    /// The tolerations.
    pub tolerations: bool,
    /// The last scheduling gate was removed.
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

/// Chooses a label by whether there is a previous version.
fn either<T>(old: &Option<Arc<T>>, added: &'static str, updated: &'static str) -> &'static str {
    if old.is_none() { added } else { updated }
}

/// Type of a cluster event, by which plugins subscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum About {
    /// A node event.
    Node,
    /// A pod was assigned to a node.
    PodPlaced,
    /// An assigned pod changed.
    PodChanged,
    /// A pod left its node.
    PodGone,
    /// The unschedulable pod itself changed.
    PendingPod,
    /// An event of a volume or of an object that volumes depend on.
    Storage,
    /// An event of a kind that a plugin follows, by the plugin's name for it.
    Custom(&'static str),
}

impl ClusterEvent {
    /// Its label in kube-scheduler's metrics and logs.
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

    /// The type by which plugins subscribe to it.
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

    /// For a node event, the previous and the new version of the node.
    pub fn node(&self) -> Option<(Option<&Arc<Node>>, &Arc<Node>)> {
        match self {
            Self::NodeAdded(new) => Some((None, new)),
            Self::NodeChanged { old, new, .. } => Some((Some(old), new)),
            _ => None,
        }
    }
}
