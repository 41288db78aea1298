//! What happens in a cluster that can make a pod schedulable that was not.

use std::sync::Arc;

use crate::view::node::NodeChanges;
use crate::view::storage::{Claim, CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, StorageClass};
use crate::view::{Node, Pod};

/// What happened. Where there is an old and a new version, both are of one object.
#[derive(Clone, Debug)]
pub(crate) enum ClusterEvent {
    NodeAdded(Arc<Node>),
    NodeChanged {
        old: Arc<Node>,
        new: Arc<Node>,
        changes: NodeChanges,
    },
    NodeGone(Arc<Node>),
    /// A pod has come to a node.
    PodPlaced(Arc<Pod>),
    /// A pod on a node has changed.
    PodChanged {
        old: Arc<Pod>,
        new: Arc<Pod>,
        changes: PodChanges,
    },
    /// A pod that had a node, or soon would have, is gone or goes elsewhere.
    PodGone(Arc<Pod>),
    /// The pod itself, which has no node.
    PendingChanged {
        old: Arc<Pod>,
        new: Arc<Pod>,
        changes: PodChanges,
    },
    ClaimChanged {
        old: Option<Arc<Claim>>,
        new: Arc<Claim>,
    },
    VolumeChanged {
        old: Option<Arc<PersistentVolume>>,
        new: Arc<PersistentVolume>,
    },
    ClassChanged {
        old: Option<Arc<StorageClass>>,
        new: Arc<StorageClass>,
    },
    CsiNodeChanged {
        old: Option<Arc<CsiNode>>,
        new: Arc<CsiNode>,
    },
    CsiDriverChanged {
        old: Arc<CsiDriver>,
        new: Arc<CsiDriver>,
    },
    CapacityChanged {
        old: Option<Arc<CsiStorageCapacity>>,
        new: Arc<CsiStorageCapacity>,
    },
    VolumeDetached,
}

/// What of a pod has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodChanges {
    pub(crate) labels: bool,
    /// It wants less of something.
    pub(crate) scaled_down: bool,
    pub(crate) tolerations: bool,
    /// Nothing holds it back any more.
    pub(crate) gates_gone: bool,
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
}

/// What an event is about, for whoever wants to know only of some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Node,
    PodPlaced,
    PodChanged,
    PodGone,
    PendingPod,
    Storage,
}

impl ClusterEvent {
    pub(crate) fn about(&self) -> About {
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
        }
    }

    /// The node that is there now, if a node came or changed, and what it was before.
    pub(crate) fn node(&self) -> Option<(Option<&Arc<Node>>, &Arc<Node>)> {
        match self {
            Self::NodeAdded(new) => Some((None, new)),
            Self::NodeChanged { old, new, .. } => Some((Some(old), new)),
            _ => None,
        }
    }
}
