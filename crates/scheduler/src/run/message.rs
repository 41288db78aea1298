//! Messages to the scheduling task.

use std::sync::Arc;

use coracle_runtime::{Change, ClusterId, Informer, Manager, ObjectKey, Selection, informer};
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

/// Field selector that excludes finished pods, which use no resources.
const RUNNING_OR_PENDING: &str = "status.phase!=Succeeded,status.phase!=Failed";

pub(crate) enum Message {
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
    /// A change of an object of a kind that a plugin follows.
    Custom {
        kind: &'static str,
        key: ObjectKey,
    },
    /// Asks for a notification when the scheduler is idle.
    Quiet(oneshot::Sender<()>),
}

impl Message {
    /// The cluster of the event, if there is one.
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
            Self::Custom { key, .. } => key,
            Self::Quiet(_) => return None,
        };
        Some(key.cluster())
    }

    /// Its label in kube-scheduler's metrics; none if it is not counted.
    pub(super) fn label(&self) -> Option<&'static str> {
        Some(match self {
            Self::Pod(change) => pod_label(change)?,
            Self::Node(change) => match (&change.old, &change.new) {
                (Some(old), Some(new)) => {
                    let changes = new.changes_since(old);
                    return changes.any().then(|| changes.label());
                }
                _ => label(change, ["NodeAdd", "NodeUpdate", "NodeDelete"]),
            },
            Self::Claim(change) => label(
                change,
                ["PersistentVolumeClaimAdd", "PersistentVolumeClaimUpdate", "PersistentVolumeClaimDelete"],
            ),
            Self::Volume(change) => {
                label(change, ["PersistentVolumeAdd", "PersistentVolumeUpdate", "PersistentVolumeDelete"])
            }
            Self::Class(change) => label(
                change,
                [
                    "storage.k8s.io/StorageClassAdd",
                    "storage.k8s.io/StorageClassUpdate",
                    "storage.k8s.io/StorageClassDelete",
                ],
            ),
            Self::CsiNode(change) => label(
                change,
                ["storage.k8s.io/CSINodeAdd", "storage.k8s.io/CSINodeUpdate", "storage.k8s.io/CSINodeDelete"],
            ),
            Self::CsiDriver(change) => label(
                change,
                [
                    "storage.k8s.io/CSIDriverAdd",
                    "storage.k8s.io/CSIDriverUpdate",
                    "storage.k8s.io/CSIDriverDelete",
                ],
            ),
            Self::Capacity(change) => label(
                change,
                [
                    "storage.k8s.io/CSIStorageCapacityAdd",
                    "storage.k8s.io/CSIStorageCapacityUpdate",
                    "storage.k8s.io/CSIStorageCapacityDelete",
                ],
            ),
            Self::Attachment(change) => label(
                change,
                [
                    "storage.k8s.io/VolumeAttachmentAdd",
                    "storage.k8s.io/VolumeAttachmentUpdate",
                    "storage.k8s.io/VolumeAttachmentDelete",
                ],
            ),
            Self::Custom { kind, .. } => kind,
            // kube-scheduler has no event handlers for these kinds.
            _ => return None,
        })
    }

    /// True if the event starts the tracking of a cluster: one without nodes and pods is not tracked.
    pub(super) fn begins_cluster(&self) -> bool {
        match self {
            Self::Pod(change) => change.new.is_some(),
            Self::Node(change) => change.new.is_some(),
            _ => false,
        }
    }
}

fn label<V>(change: &Change<V>, [add, update, delete]: [&'static str; 3]) -> &'static str {
    match (&change.old, &change.new) {
        (_, None) => delete,
        (None, Some(_)) => add,
        (Some(_), Some(_)) => update,
    }
}

/// A pod that was just assigned counts as added, even if it was cached as pending before.
fn pod_label(change: &Change<Pod>) -> Option<&'static str> {
    let pod = change.new.as_ref().or(change.old.as_ref())?;
    let was_assigned = change.old.as_ref().is_some_and(|old| old.is_assigned());
    Some(match (pod.is_assigned(), was_assigned) {
        (true, false) => "AssignedPodAdd",
        (true, true) => label(change, ["AssignedPodAdd", "AssignedPodUpdate", "AssignedPodDelete"]),
        (false, _) => {
            label(change, ["UnschedulablePodAdd", "UnschedulablePodUpdate", "UnschedulablePodDelete"])
        }
    })
}

/// The scheduler's informers.
pub(super) struct Informers {
    pub(super) claims: Informer<Claim>,
    pub(super) volumes: Informer<PersistentVolume>,
    /// All of them, to wait until they are synced.
    pub(super) all: Vec<informer::Changes>,
    pub(super) cluster_listers: ClusterListers,
}

/// Kinds other than nodes and pods. Their objects are read from the informers when a cluster is first
/// tracked, so the scheduler keeps no copy for clusters in which nothing can be scheduled, and sees the
/// objects that all clusters share and that cause no events.
#[derive(Default)]
pub(super) struct ClusterListers {
    kinds: Vec<Box<OfKind>>,
}

/// Lists the objects of one kind in a cluster.
type OfKind = dyn Fn(&ClusterId) -> Vec<Message> + Send;

impl ClusterListers {
    fn include<V: informer::View>(&mut self, informer: Informer<V>, wrap: fn(Change<V>) -> Message) {
        self.kinds.push(Box::new(move |cluster| {
            let found = informer.store().in_cluster(cluster).into_iter();
            found.map(|object| wrap(as_if_new(cluster, object))).collect()
        }));
    }

    /// All objects of a cluster, as add events.
    pub(super) fn of(&self, cluster: &ClusterId) -> impl Iterator<Item = Message> {
        self.kinds.iter().flat_map(move |kind| kind(cluster))
    }
}

fn as_if_new<V: informer::View>(cluster: &ClusterId, object: Arc<V>) -> Change<V> {
    let metadata = object.metadata();
    let key = ObjectKey::namespaced(cluster.clone(), &*metadata.namespace, &*metadata.name);
    Change { key, old: None, new: Some(object) }
}

/// Starts the informers of all kinds and connects them to a channel.
pub(super) fn start_informers(manager: &mut Manager, sender: &mpsc::Sender<Message>) -> Informers {
    let (mut all, mut cluster_listers) = (Vec::new(), ClusterListers::default());
    let mut feed = Feed { manager, sender, all: &mut all, cluster_listers: &mut cluster_listers };
    feed.add(Selection::of::<core::Pod>().with_fields(RUNNING_OR_PENDING), Message::Pod);
    feed.add(Selection::of::<core::Node>(), Message::Node);
    feed.add_listed(Selection::of::<core::Namespace>(), Message::Namespace);
    feed.add_listed(Selection::of::<core::Service>(), Message::Service);
    feed.add_listed(Selection::of::<core::ReplicationController>(), Message::ReplicationController);
    feed.add_listed(Selection::of::<apps::ReplicaSet>(), Message::ReplicaSet);
    feed.add_listed(Selection::of::<apps::StatefulSet>(), Message::StatefulSet);
    feed.add_listed(Selection::of::<policy::PodDisruptionBudget>(), Message::Budget);
    let claims = feed.add_listed(Selection::of::<core::PersistentVolumeClaim>(), Message::Claim);
    let volumes = feed.add_listed(Selection::of::<core::PersistentVolume>(), Message::Volume);
    feed.add_listed(Selection::of::<storage::StorageClass>(), Message::Class);
    feed.add_listed(Selection::of::<storage::CSINode>(), Message::CsiNode);
    feed.add_listed(Selection::of::<storage::CSIDriver>(), Message::CsiDriver);
    feed.add_listed(Selection::of::<storage::CSIStorageCapacity>(), Message::Capacity);
    feed.add_listed(Selection::of::<storage::VolumeAttachment>(), Message::Attachment);
    Informers { claims, volumes, all, cluster_listers }
}

struct Feed<'a> {
    manager: &'a mut Manager,
    sender: &'a mpsc::Sender<Message>,
    all: &'a mut Vec<informer::Changes>,
    cluster_listers: &'a mut ClusterListers,
}

impl Feed<'_> {
    fn add<V: informer::View>(
        &mut self,
        selection: Selection,
        wrap: fn(Change<V>) -> Message,
    ) -> Informer<V> {
        let informer = self.manager.informer(selection);
        informer.feed(self.sender.clone(), wrap);
        self.all.push(informer.changes());
        informer
    }

    /// Like [`Feed::add`], for kinds that are listed when a cluster is first tracked.
    fn add_listed<V: informer::View>(
        &mut self,
        selection: Selection,
        wrap: fn(Change<V>) -> Message,
    ) -> Informer<V> {
        let informer = self.add(selection, wrap);
        self.cluster_listers.include(informer.clone(), wrap);
        informer
    }
}
