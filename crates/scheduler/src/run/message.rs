//! Everything the scheduler is told.

use coracle_runtime::{Change, ClusterId, Informer, Manager, Selection, informer};
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1 as policy;
use k8s_openapi::api::storage::v1 as storage;
use tokio::sync::{mpsc, oneshot};

use crate::view::storage::{
    Claim, CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, StorageClass, VolumeAttachment,
};
use crate::view::workload::{BySelector, BySet, DisruptionBudget, Namespace};
use crate::view::{Node, Pod};

/// Pods that have ended take nothing of a node.
const RUNNING_OR_PENDING: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// What happened.
pub(super) enum Message {
    Pod(Change<Pod>),
    Node(Change<Node>),
    Namespace(Change<Namespace>),
    Service(Change<BySet>),
    ReplicationController(Change<BySet>),
    ReplicaSet(Change<BySelector>),
    StatefulSet(Change<BySelector>),
    Budget(Change<DisruptionBudget>),
    Claim(Change<Claim>),
    Volume(Change<PersistentVolume>),
    Class(Change<StorageClass>),
    CsiNode(Change<CsiNode>),
    CsiDriver(Change<CsiDriver>),
    Capacity(Change<CsiStorageCapacity>),
    Attachment(Change<VolumeAttachment>),
    /// Somebody wants to know when nothing is left to do.
    Quiet(oneshot::Sender<()>),
}

impl Message {
    /// Where it happened; none for what happened nowhere.
    pub(super) fn cluster(&self) -> Option<&ClusterId> {
        let key = match self {
            Self::Pod(change) => &change.key,
            Self::Node(change) => &change.key,
            Self::Namespace(change) => &change.key,
            Self::Service(change) | Self::ReplicationController(change) => &change.key,
            Self::ReplicaSet(change) | Self::StatefulSet(change) => &change.key,
            Self::Budget(change) => &change.key,
            Self::Claim(change) => &change.key,
            Self::Volume(change) => &change.key,
            Self::Class(change) => &change.key,
            Self::CsiNode(change) => &change.key,
            Self::CsiDriver(change) => &change.key,
            Self::Capacity(change) => &change.key,
            Self::Attachment(change) => &change.key,
            Self::Quiet(_) => return None,
        };
        Some(key.cluster())
    }
}

/// The informers that tell, of which some are looked at again.
pub(super) struct Informers {
    pub(super) claims: Informer<Claim>,
    pub(super) volumes: Informer<PersistentVolume>,
    /// All of them, to wait until they know everything.
    pub(super) all: Vec<informer::Changes>,
}

/// Has every kind that matters told to a channel.
pub(super) fn follow(manager: &mut Manager, told: &mpsc::Sender<Message>) -> Informers {
    let mut all = Vec::new();
    let mut feed = Feed { manager, told, all: &mut all };
    feed.add(Selection::of::<core::Pod>().with_fields(RUNNING_OR_PENDING), Message::Pod);
    feed.add(Selection::of::<core::Node>(), Message::Node);
    feed.add(Selection::of::<core::Namespace>(), Message::Namespace);
    feed.add(Selection::of::<core::Service>(), Message::Service);
    feed.add(Selection::of::<core::ReplicationController>(), Message::ReplicationController);
    feed.add(Selection::of::<apps::ReplicaSet>(), Message::ReplicaSet);
    feed.add(Selection::of::<apps::StatefulSet>(), Message::StatefulSet);
    feed.add(Selection::of::<policy::PodDisruptionBudget>(), Message::Budget);
    let claims = feed.add(Selection::of::<core::PersistentVolumeClaim>(), Message::Claim);
    let volumes = feed.add(Selection::of::<core::PersistentVolume>(), Message::Volume);
    feed.add(Selection::of::<storage::StorageClass>(), Message::Class);
    feed.add(Selection::of::<storage::CSINode>(), Message::CsiNode);
    feed.add(Selection::of::<storage::CSIDriver>(), Message::CsiDriver);
    feed.add(Selection::of::<storage::CSIStorageCapacity>(), Message::Capacity);
    feed.add(Selection::of::<storage::VolumeAttachment>(), Message::Attachment);
    Informers { claims, volumes, all }
}

struct Feed<'a> {
    manager: &'a mut Manager,
    told: &'a mpsc::Sender<Message>,
    all: &'a mut Vec<informer::Changes>,
}

impl Feed<'_> {
    fn add<V: informer::View>(
        &mut self,
        selection: Selection,
        wrap: fn(Change<V>) -> Message,
    ) -> Informer<V> {
        let informer = self.manager.informer(selection);
        informer.feed(self.told.clone(), wrap);
        self.all.push(informer.changes());
        informer
    }
}
