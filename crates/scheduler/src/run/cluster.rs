//! One cluster: what is known of it, and which of its pods wait.

use std::sync::Arc;

use coracle_base::{Rng, Timestamp};
use coracle_runtime::{Change, ClusterId, ObjectKey};

use super::message::Message;
use crate::cycle::Turns;
use crate::framework::{ClusterEvent, PodChanges, Profile};
use crate::queue::{Backoff, Queue, Refusal};
use crate::view::{Node, Pod};
use crate::world::World;

/// A cluster.
pub(super) struct Cluster {
    pub(super) world: World,
    pub(super) queue: Queue,
    pub(super) turns: Turns,
}

impl Cluster {
    pub(super) fn new(id: ClusterId, backoff: Backoff, rng: Rng) -> Self {
        Self { world: World::new(id), queue: Queue::new(backoff), turns: Turns::new(rng) }
    }

    /// Notes what happened, and wakes whom it may help.
    pub(super) fn take_in(&mut self, message: Message, profiles: &[Profile], now: Timestamp) {
        let event = match message {
            Message::Pod(change) => return self.pod(change, profiles, now),
            Message::Node(change) => self.node(change),
            Message::Claim(change) => self.claim(change),
            Message::Volume(change) => self.volume(change),
            Message::Class(change) => {
                note(&mut self.world.storage.classes, change.key.name(), &change.new);
                change.new.map(|new| ClusterEvent::ClassChanged { old: change.old, new })
            }
            Message::CsiNode(change) => {
                note(&mut self.world.storage.csi_nodes, change.key.name(), &change.new);
                change.new.map(|new| ClusterEvent::CsiNodeChanged { old: change.old, new })
            }
            Message::CsiDriver(change) => {
                note(&mut self.world.storage.csi_drivers, change.key.name(), &change.new);
                change.old.zip(change.new).map(|(old, new)| ClusterEvent::CsiDriverChanged { old, new })
            }
            Message::Capacity(change) => {
                note_named(&mut self.world.storage.capacities, &change.key, &change.new);
                change.new.map(|new| ClusterEvent::CapacityChanged { old: change.old, new })
            }
            Message::Attachment(change) => {
                self.world.storage.set_attachment(change.old.as_ref(), change.new.as_ref());
                change.new.is_none().then_some(ClusterEvent::VolumeDetached)
            }
            other => return self.workload(other),
        };
        if let Some(event) = event {
            self.wake(&event, profiles, now);
        }
    }

    /// What pods belong to helps nobody, so nobody is woken.
    fn workload(&mut self, message: Message) {
        let workloads = &mut self.world.workloads;
        match message {
            Message::Namespace(change) => note(&mut workloads.namespaces, change.key.name(), &change.new),
            Message::Service(change) => {
                workloads.set_service(change.key.namespace(), change.key.name(), change.new);
            }
            Message::ReplicationController(change) => {
                note_named(&mut workloads.replication_controllers, &change.key, &change.new);
            }
            Message::ReplicaSet(change) => note_named(&mut workloads.replica_sets, &change.key, &change.new),
            Message::StatefulSet(change) => {
                note_named(&mut workloads.stateful_sets, &change.key, &change.new)
            }
            Message::Budget(change) => note_named(&mut workloads.budgets, &change.key, &change.new),
            _ => {}
        }
    }

    fn node(&mut self, change: Change<Node>) -> Option<ClusterEvent> {
        if let Some(new) = &change.new {
            self.world.cache.set_node(new);
        } else {
            self.world.cache.remove_node(change.key.name());
        }
        match (change.old, change.new) {
            (None, Some(new)) => Some(ClusterEvent::NodeAdded(new)),
            (Some(old), Some(new)) => {
                let changes = new.changes_since(&old);
                changes.any().then_some(ClusterEvent::NodeChanged { old, new, changes })
            }
            (old, None) => old.map(ClusterEvent::NodeGone),
        }
    }

    fn claim(&mut self, change: Change<crate::view::storage::Claim>) -> Option<ClusterEvent> {
        self.world.storage.set_claim(change.key.namespace(), change.key.name(), change.new.clone());
        change.new.map(|new| ClusterEvent::ClaimChanged { old: change.old, new })
    }

    fn volume(&mut self, change: Change<crate::view::storage::PersistentVolume>) -> Option<ClusterEvent> {
        self.world.storage.set_volume(change.key.name(), change.new.clone());
        change.new.map(|new| ClusterEvent::VolumeChanged { old: change.old, new })
    }

    fn pod(&mut self, change: Change<Pod>, profiles: &[Profile], now: Timestamp) {
        match (change.old, change.new) {
            (None, Some(new)) => self.pod_added(&new, profiles, now),
            (Some(old), None) => self.pod_gone(&old, profiles, now),
            // Another one of the same name.
            (Some(old), Some(new)) if old.metadata.uid != new.metadata.uid => {
                self.pod_gone(&old, profiles, now);
                self.pod_added(&new, profiles, now);
            }
            (Some(old), Some(new)) if new.is_assigned() => self.placed_pod_changed(old, new, profiles, now),
            (Some(old), Some(new)) => self.pending_pod_changed(old, new, profiles, now),
            (None, None) => {}
        }
    }

    fn pod_added(&mut self, pod: &Arc<Pod>, profiles: &[Profile], now: Timestamp) {
        if pod.is_assigned() {
            return self.pod_placed(pod, profiles, now);
        }
        let Some(profile) = profile_of(pod, profiles) else { return };
        let gated = profiles[profile].gate(pod).is_some();
        self.queue.add(Arc::clone(pod), profile, gated, now);
        self.world.nominated.set(pod, &pod.nominated_node);
    }

    /// The server says where a pod runs, whoever decided it.
    fn pod_placed(&mut self, pod: &Arc<Pod>, profiles: &[Profile], now: Timestamp) {
        self.world.cache.set_pod(pod);
        self.world.nominated.remove(&pod.metadata.uid);
        // One that is being bound here stays until that is over.
        if !self.queue.is_in_flight(&pod.metadata.uid) {
            self.queue.remove(&pod.metadata.uid);
        }
        self.wake(&ClusterEvent::PodPlaced(Arc::clone(pod)), profiles, now);
    }

    fn placed_pod_changed(&mut self, old: Arc<Pod>, new: Arc<Pod>, profiles: &[Profile], now: Timestamp) {
        if !old.is_assigned() {
            return self.pod_placed(&new, profiles, now);
        }
        self.world.cache.set_pod(&new);
        let changes = PodChanges::between(&old, &new);
        if changes.any() {
            self.wake(&ClusterEvent::PodChanged { old, new, changes }, profiles, now);
        }
    }

    fn pending_pod_changed(&mut self, old: Arc<Pod>, new: Arc<Pod>, profiles: &[Profile], now: Timestamp) {
        let uid = &new.metadata.uid;
        if self.world.cache.is_assumed(uid) {
            self.queue.update(&new);
            if new.is_terminating() && !old.is_terminating() {
                self.forget(uid, profiles, now);
            }
            return;
        }
        if self.queue.get(uid).is_none() {
            return self.pod_added(&new, profiles, now);
        }
        self.queue.update(&new);
        self.renominate(&old, &new);
        let changes = PodChanges::between(&old, &new);
        if self.queue.is_gated(uid) {
            let free =
                profile_of(&new, profiles).is_some_and(|profile| profiles[profile].gate(&new).is_none());
            if free {
                self.queue.wake_one(uid, now);
            }
        } else if let Some(refusal) = self.queue.refusal_of(uid) {
            let event =
                ClusterEvent::PendingChanged { old: Arc::clone(&old), new: Arc::clone(&new), changes };
            if profiles[refusal.profile].hint(&self.world, &new, refusal.plugins, &event) {
                self.queue.wake_one(uid, now);
            }
        }
        if !old.nominated_node.is_empty() && old.nominated_node != new.nominated_node {
            // Whoever is not more important has counted it as there.
            self.wake(&ClusterEvent::PodGone(old), profiles, now);
        }
    }

    /// What a pod was promised here is not forgotten because a version comes that does not know it yet.
    fn renominate(&mut self, old: &Pod, new: &Arc<Pod>) {
        if old.nominated_node != new.nominated_node {
            self.world.nominated.set(new, &new.nominated_node);
        } else if let Some(node) = self.world.nominated.node_of(&new.metadata.uid).map(str::to_owned) {
            self.world.nominated.set(new, &node);
        }
    }

    fn pod_gone(&mut self, pod: &Arc<Pod>, profiles: &[Profile], now: Timestamp) {
        let uid = &pod.metadata.uid;
        self.queue.remove(uid);
        self.world.nominated.remove(uid);
        if pod.is_assigned() {
            self.world.cache.remove_pod(uid);
            self.wake(&ClusterEvent::PodGone(Arc::clone(pod)), profiles, now);
        } else if !self.forget(uid, profiles, now) && !pod.nominated_node.is_empty() {
            self.wake(&ClusterEvent::PodGone(Arc::clone(pod)), profiles, now);
        }
    }

    /// Takes back where a pod was to run. Whether that had been decided.
    pub(super) fn forget(&mut self, uid: &str, profiles: &[Profile], now: Timestamp) -> bool {
        let Some(forgotten) = self.world.cache.forget(uid) else { return false };
        self.wake(&ClusterEvent::PodGone(forgotten), profiles, now);
        true
    }

    /// Wakes the pods that an event may help.
    pub(super) fn wake(&mut self, event: &ClusterEvent, profiles: &[Profile], now: Timestamp) {
        let about = event.about();
        let is_new_node = matches!(event, ClusterEvent::NodeAdded(_));
        let wanting: Vec<_> = profiles.iter().map(|profile| profile.wanting(about)).collect();
        let world = &self.world;
        let wants = |refusal: Refusal| {
            if refusal.plugins.is_empty() {
                is_new_node
            } else {
                refusal.plugins.meets(wanting[refusal.profile])
            }
        };
        self.queue.wake(now, wants, |pod, refusal| {
            refusal.plugins.is_empty() || profiles[refusal.profile].hint(world, pod, refusal.plugins, event)
        });
    }

    /// Whether nothing is known of it, so that it need not be kept.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.world.cache.is_empty()
    }
}

/// Who schedules a pod; none if somebody else does.
fn profile_of(pod: &Pod, profiles: &[Profile]) -> Option<usize> {
    profiles.iter().position(|profile| profile.scheduler_name == pod.scheduler_name)
}

fn note<V>(known: &mut std::collections::HashMap<Box<str>, Arc<V>>, name: &str, new: &Option<Arc<V>>) {
    match new {
        Some(new) => drop(known.insert(name.into(), Arc::clone(new))),
        None => drop(known.remove(name)),
    }
}

fn note_named<V>(
    known: &mut std::collections::HashMap<(Box<str>, Box<str>), Arc<V>>,
    key: &ObjectKey,
    new: &Option<Arc<V>>,
) {
    let key = (key.namespace().into(), key.name().into());
    match new {
        Some(new) => drop(known.insert(key, Arc::clone(new))),
        None => drop(known.remove(&key)),
    }
}
