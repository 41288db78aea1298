//! One cluster: what is known of it, and which of its pods wait.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coracle_base::{Clock, Rng, Timestamp};
use coracle_runtime::{Change, ClusterId, ObjectKey};

use super::binding::{Held, PreBinding};
use super::message::Message;
use crate::cycle::{Point, Status, Turns};
use crate::framework::{ClusterEvent, Hint, PodChanges, Profile, QueueSort, WaitingPods};
use crate::metrics::{SAMPLED_PERCENT, SchedulerMetrics};
use crate::queue::{Backoff, Queue, Refusal};
use crate::view::{Node, Pod};
use crate::world::World;

/// For so many pods of those that an event may help it is noted how long plugins think about it: to look at the
/// clock for each of thousands would cost more than the thinking.
const TIMED_HINTS: u32 = 16;

/// What is the same for all clusters.
pub(super) struct Rules {
    pub(super) profiles: Vec<Profile>,
    pub(super) sort: Arc<dyn QueueSort>,
    pub(super) backoff: Backoff,
    pub(super) waiting: WaitingPods,
    pub(super) metrics: Arc<SchedulerMetrics>,
    pub(super) clock: Clock,
    /// How often pods were asked about before they came to a queue.
    pub(super) gated: AtomicU64,
}

impl Rules {
    /// Who holds a pod back.
    fn gate(&self, pod: &Pod, profile: usize) -> Option<usize> {
        let began = self.clock.uptime();
        let is_sampled = self.gated.fetch_add(1, Ordering::Relaxed) % 100 < SAMPLED_PERCENT;
        let mut last = began;
        let gate = self.profiles[profile].gate(pod, |plugin, is_free| {
            if is_sampled {
                let status = if is_free { Status::Success } else { Status::UnschedulableAndUnresolvable };
                let now = self.clock.uptime();
                let took = now.saturating_sub(std::mem::replace(&mut last, now));
                self.metrics.asked(plugin, Point::PreEnqueue, status, took);
            }
        });
        let status = if gate.is_some() { Status::UnschedulableAndUnresolvable } else { Status::Success };
        let took = self.clock.uptime().saturating_sub(began);
        self.metrics.passed(profile, Point::PreEnqueue, status, took);
        gate
    }
}

/// A cluster.
pub(super) struct Cluster {
    pub(super) rules: Arc<Rules>,
    pub(super) world: World,
    pub(super) queue: Queue,
    pub(super) turns: Turns,
    /// Pods that wait to be allowed to go to their nodes.
    pub(super) held: HashMap<Box<str>, Held>,
    /// Pods for which something has to be done first.
    pub(super) pre_binding: HashMap<Box<str>, PreBinding>,
    /// What was last told of how much is known.
    counted: [usize; 3],
}

impl Cluster {
    pub(super) fn new(id: ClusterId, rules: Arc<Rules>, rng: Rng) -> Self {
        let queue = Queue::new(rules.backoff, Arc::clone(&rules.sort), Arc::clone(&rules.metrics));
        Self {
            rules,
            world: World::new(id),
            queue,
            turns: Turns::new(rng),
            held: HashMap::new(),
            pre_binding: HashMap::new(),
            counted: [0; 3],
        }
    }

    /// Tells how much is known, if that has changed.
    pub(super) fn count(&mut self) {
        let now = self.world.cache.size();
        if now != self.counted {
            let before = std::mem::replace(&mut self.counted, now);
            let more = |place: usize| now[place] as f64 - before[place] as f64;
            self.rules.metrics.cached([more(0), more(1), more(2)]);
        }
    }

    /// Notes what happened, and wakes whom it may help.
    pub(super) fn take_in(&mut self, message: Message, now: Timestamp) {
        let event = match message {
            Message::Pod(change) => return self.pod(change, now),
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
            Message::Custom { kind, key } => Some(ClusterEvent::Custom { kind, key }),
            other => return self.workload(other),
        };
        if let Some(event) = event {
            self.wake(&event, now);
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

    fn pod(&mut self, change: Change<Pod>, now: Timestamp) {
        match (change.old, change.new) {
            (None, Some(new)) => self.pod_added(&new, now),
            (Some(old), None) => self.pod_gone(&old, now),
            // Another one of the same name.
            (Some(old), Some(new)) if old.metadata.uid != new.metadata.uid => {
                self.pod_gone(&old, now);
                self.pod_added(&new, now);
            }
            (Some(old), Some(new)) if new.is_assigned() => self.placed_pod_changed(old, new, now),
            (Some(old), Some(new)) => self.pending_pod_changed(old, new, now),
            (None, None) => {}
        }
    }

    fn pod_added(&mut self, pod: &Arc<Pod>, now: Timestamp) {
        if pod.is_assigned() {
            return self.pod_placed(pod, now);
        }
        let Some(profile) = profile_of(pod, &self.rules.profiles) else { return };
        let gate = self.rules.gate(pod, profile);
        self.queue.add(Arc::clone(pod), profile, gate, now);
        self.world.nominated.set(pod, &pod.nominated_node);
    }

    /// The server says where a pod runs, whoever decided it.
    fn pod_placed(&mut self, pod: &Arc<Pod>, now: Timestamp) {
        self.world.cache.set_pod(pod);
        self.world.nominated.remove(&pod.metadata.uid);
        // One that is being bound here stays until that is over.
        if !self.queue.is_in_flight(&pod.metadata.uid) {
            self.queue.remove(&pod.metadata.uid);
        }
        self.wake(&ClusterEvent::PodPlaced(Arc::clone(pod)), now);
    }

    fn placed_pod_changed(&mut self, old: Arc<Pod>, new: Arc<Pod>, now: Timestamp) {
        if !old.is_assigned() {
            return self.pod_placed(&new, now);
        }
        self.world.cache.set_pod(&new);
        let changes = PodChanges::between(&old, &new);
        if changes.any() {
            self.wake(&ClusterEvent::PodChanged { old, new, changes }, now);
        }
    }

    fn pending_pod_changed(&mut self, old: Arc<Pod>, new: Arc<Pod>, now: Timestamp) {
        let uid = &new.metadata.uid;
        if self.world.cache.is_assumed(uid) {
            self.queue.update(&new);
            if new.is_terminating() && !old.is_terminating() && !self.give_up(uid) {
                self.forget(uid, now);
            }
            return;
        }
        if self.queue.get(uid).is_none() {
            return self.pod_added(&new, now);
        }
        self.queue.update(&new);
        self.renominate(&old, &new);
        let changes = PodChanges::between(&old, &new);
        let event = ClusterEvent::PendingChanged { old: Arc::clone(&old), new: Arc::clone(&new), changes };
        self.wake_itself(uid, &new, &event, now);
        if !old.nominated_node.is_empty() && old.nominated_node != new.nominated_node {
            // Whoever is not more important has counted it as there.
            self.wake(&ClusterEvent::PodGone(old), now);
        }
    }

    /// Has a pod tried that has changed itself, if that may help it.
    fn wake_itself(&mut self, uid: &str, pod: &Pod, event: &ClusterEvent, now: Timestamp) {
        let rules = Arc::clone(&self.rules);
        let gate = |profile| rules.gate(pod, profile);
        if self.queue.is_gated(uid) {
            let gate = profile_of(pod, &rules.profiles).and_then(gate);
            self.queue.wake_one(uid, event.label(), Hint::AfterBackoff, gate, now);
        } else if let Some(refusal) = self.queue.refusal_of(uid) {
            let hint = self.hint(pod, refusal, event);
            if hint != Hint::Skip {
                self.queue.wake_one(uid, event.label(), hint, gate(refusal.profile), now);
            }
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

    fn pod_gone(&mut self, pod: &Arc<Pod>, now: Timestamp) {
        let uid = &pod.metadata.uid;
        self.queue.remove(uid);
        self.world.nominated.remove(uid);
        if pod.is_assigned() {
            self.world.cache.remove_pod(uid);
            self.wake(&ClusterEvent::PodGone(Arc::clone(pod)), now);
        } else if !self.give_up(uid) && !self.forget(uid, now) && !pod.nominated_node.is_empty() {
            self.wake(&ClusterEvent::PodGone(Arc::clone(pod)), now);
        }
    }

    /// Lets a pod wait no longer to be allowed, for it is gone or going. Whether it did.
    fn give_up(&self, uid: &str) -> bool {
        let waiting = self.rules.waiting.get(&self.world.cluster, uid);
        waiting.is_some_and(|waiting| waiting.reject("", "removed"))
    }

    /// Takes back where a pod was to run. Whether that had been decided.
    pub(super) fn forget(&mut self, uid: &str, now: Timestamp) -> bool {
        let Some(forgotten) = self.world.cache.forget(uid) else { return false };
        self.wake(&ClusterEvent::PodGone(forgotten), now);
        true
    }

    /// Wakes the pods that an event may help.
    pub(super) fn wake(&mut self, event: &ClusterEvent, now: Timestamp) {
        let rules = Arc::clone(&self.rules);
        let about = event.about();
        let is_new_node = matches!(event, ClusterEvent::NodeAdded(_));
        let wanting: Vec<_> = rules.profiles.iter().map(|profile| profile.wanting(about)).collect();
        let wants = |refusal: Refusal| {
            if refusal.plugins.is_empty() {
                is_new_node
            } else {
                refusal.plugins.meets(wanting[refusal.profile])
            }
        };
        let (world, asked) = (&self.world, Cell::new(0));
        let helps = |pod: &Pod, refusal: Refusal| {
            if refusal.plugins.is_empty() {
                return Hint::AfterBackoff;
            }
            asked.set(asked.get() + 1);
            hint(&rules, world, pod, refusal, event, asked.get() <= TIMED_HINTS)
        };
        // What happens while a pod waits to be allowed counts when it is not.
        for held in self.held.values_mut().filter(|held| wants(held.refusal)) {
            let hint = helps(&held.pod, held.refusal);
            held.hint = held.hint.max(hint);
        }
        self.queue.wake(event.label(), now, wants, helps, |pod, profile| rules.gate(pod, profile));
    }

    fn hint(&self, pod: &Pod, refusal: Refusal, event: &ClusterEvent) -> Hint {
        hint(&self.rules, &self.world, pod, refusal, event, true)
    }

    /// Has a pod tried, because a plugin wants it.
    pub(super) fn activate(&mut self, uid: &str, now: Timestamp) {
        let Some((pod, profile)) = self.queue.get(uid).cloned().zip(self.queue.profile_of(uid)) else {
            return;
        };
        let gate = self.rules.gate(&pod, profile);
        self.queue.force(uid, gate, now);
        if let Some(held) = self.held.get_mut(uid) {
            held.hint = Hint::Immediately;
        }
    }

    /// Whether nothing is known of it, so that it need not be kept.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.world.cache.is_empty()
    }
}

impl Drop for Cluster {
    /// What was counted as known is not any more.
    fn drop(&mut self) {
        let [nodes, pods, assumed] = self.counted.map(|count| -(count as f64));
        self.rules.metrics.cached([nodes, pods, assumed]);
    }
}

/// Whether an event may have made a pod schedulable.
fn hint(
    rules: &Rules,
    world: &World,
    pod: &Pod,
    refusal: Refusal,
    event: &ClusterEvent,
    is_timed: bool,
) -> Hint {
    rules.profiles[refusal.profile].hint(refusal, |plugin| {
        if !is_timed {
            return plugin.hint(world, pod, event);
        }
        let began = rules.clock.uptime();
        let helps = plugin.hint(world, pod, event);
        let took = rules.clock.uptime().saturating_sub(began);
        rules.metrics.hinted(plugin.name(), event.label(), helps, took);
        helps
    })
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
