//! The scheduler's state of one cluster: its cache and its queue.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coracle_base::{Clock, Rng, Timestamp};
use coracle_runtime::{Change, ClusterId, ObjectKey};

use super::binding::{PreBinding, WaitingBinding};
use super::message::Message;
use crate::cluster_state::ClusterState;
use crate::cycle::{CycleState, Point, Status};
use crate::framework::{ClusterEvent, Hint, PodChanges, Profile, QueueSort, WaitingPods};
use crate::metrics::{SAMPLED_PERCENT, SchedulerMetrics};
use crate::queue::{Backoff, Queue, Refusal};
use crate::view::{Node, Pod};

/// Number of hints measured per event: reading the clock for each of thousands of pods would cost more than
/// the hints themselves.
const TIMED_HINTS: u32 = 16;

/// State shared by all clusters.
pub(super) struct SchedulerShared {
    pub(super) profiles: Vec<Profile>,
    pub(super) sort: Arc<dyn QueueSort>,
    pub(super) backoff: Backoff,
    pub(super) waiting: WaitingPods,
    pub(super) metrics: Arc<SchedulerMetrics>,
    pub(super) clock: Clock,
    /// Number of PreEnqueue runs, for sampling.
    pub(super) gated: AtomicU64,
}

impl SchedulerShared {
    /// The PreEnqueue plugin that holds a pod back.
    fn gate(&self, pod: &Pod, profile: usize) -> Option<usize> {
        let began = self.clock.uptime();
        let is_sampled = self.gated.fetch_add(1, Ordering::Relaxed) % 100 < SAMPLED_PERCENT;
        let mut last = began;
        let gate = self.profiles[profile].gate(pod, |plugin, passes| {
            if is_sampled {
                let status = if passes { Status::Success } else { Status::UnschedulableAndUnresolvable };
                let now = self.clock.uptime();
                let took = now.saturating_sub(std::mem::replace(&mut last, now));
                self.metrics.plugin_called(plugin, Point::PreEnqueue, status, took);
            }
        });
        let status = if gate.is_some() { Status::UnschedulableAndUnresolvable } else { Status::Success };
        let took = self.clock.uptime().saturating_sub(began);
        self.metrics.passed(profile, Point::PreEnqueue, status, took);
        gate
    }
}

pub(super) struct Cluster {
    pub(super) shared: Arc<SchedulerShared>,
    pub(super) state: ClusterState,
    pub(super) queue: Queue,
    pub(super) cycle_state: CycleState,
    /// Pods that wait for Permit plugins.
    pub(super) held: HashMap<Box<str>, WaitingBinding>,
    /// Pods whose PreBind steps are in progress.
    pub(super) pre_binding: HashMap<Box<str>, PreBinding>,
    /// The cache size last reported to the metrics.
    counted: [usize; 3],
}

impl Cluster {
    pub(super) fn new(id: ClusterId, shared: Arc<SchedulerShared>, rng: Rng) -> Self {
        let queue = Queue::new(shared.backoff, Arc::clone(&shared.sort), Arc::clone(&shared.metrics));
        Self {
            shared,
            state: ClusterState::new(id),
            queue,
            cycle_state: CycleState::new(rng),
            held: HashMap::new(),
            pre_binding: HashMap::new(),
            counted: [0; 3],
        }
    }

    /// Updates the metrics of the cache size.
    pub(super) fn count(&mut self) {
        let now = self.state.cache.size();
        if now != self.counted {
            let before = std::mem::replace(&mut self.counted, now);
            let more = |index: usize| now[index] as f64 - before[index] as f64;
            self.shared.metrics.cached([more(0), more(1), more(2)]);
        }
    }

    /// Applies an informer event and moves the pods it may make schedulable.
    pub(super) fn handle(&mut self, message: Message, now: Timestamp) {
        let event = match message {
            Message::Pod(change) => return self.pod(change, now),
            Message::Node(change) => self.node(change),
            Message::Claim(change) => self.claim(change),
            Message::Volume(change) => self.volume(change),
            Message::Class(change) => {
                update_map(&mut self.state.storage.classes, change.key.name(), &change.new);
                change.new.map(|new| ClusterEvent::ClassChanged { old: change.old, new })
            }
            Message::CsiNode(change) => {
                update_map(&mut self.state.storage.csi_nodes, change.key.name(), &change.new);
                change.new.map(|new| ClusterEvent::CsiNodeChanged { old: change.old, new })
            }
            Message::CsiDriver(change) => {
                update_map(&mut self.state.storage.csi_drivers, change.key.name(), &change.new);
                change.old.zip(change.new).map(|(old, new)| ClusterEvent::CsiDriverChanged { old, new })
            }
            Message::Capacity(change) => {
                update_named_map(&mut self.state.storage.capacities, &change.key, &change.new);
                change.new.map(|new| ClusterEvent::CapacityChanged { old: change.old, new })
            }
            Message::Attachment(change) => {
                self.state.storage.set_attachment(change.old.as_ref(), change.new.as_ref());
                change.new.is_none().then_some(ClusterEvent::VolumeDetached)
            }
            Message::Custom { kind, key } => Some(ClusterEvent::Custom { kind, key }),
            other => return self.workload(other),
        };
        if let Some(event) = event {
            self.wake(&event, now);
        }
    }

    /// Applies an event of a kind that makes no pod schedulable.
    fn workload(&mut self, message: Message) {
        let workloads = &mut self.state.workloads;
        match message {
            Message::Namespace(change) => {
                update_map(&mut workloads.namespaces, change.key.name(), &change.new)
            }
            Message::Service(change) => {
                workloads.set_service(change.key.namespace(), change.key.name(), change.new);
            }
            Message::ReplicationController(change) => {
                update_named_map(&mut workloads.replication_controllers, &change.key, &change.new);
            }
            Message::ReplicaSet(change) => {
                update_named_map(&mut workloads.replica_sets, &change.key, &change.new)
            }
            Message::StatefulSet(change) => {
                update_named_map(&mut workloads.stateful_sets, &change.key, &change.new)
            }
            Message::Budget(change) => update_named_map(&mut workloads.budgets, &change.key, &change.new),
            _ => {}
        }
    }

    fn node(&mut self, change: Change<Node>) -> Option<ClusterEvent> {
        if let Some(new) = &change.new {
            self.state.cache.set_node(new);
        } else {
            self.state.cache.remove_node(change.key.name());
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
        self.state.storage.set_claim(change.key.namespace(), change.key.name(), change.new.clone());
        change.new.map(|new| ClusterEvent::ClaimChanged { old: change.old, new })
    }

    fn volume(&mut self, change: Change<crate::view::storage::PersistentVolume>) -> Option<ClusterEvent> {
        self.state.storage.set_volume(change.key.name(), change.new.clone());
        change.new.map(|new| ClusterEvent::VolumeChanged { old: change.old, new })
    }

    fn pod(&mut self, change: Change<Pod>, now: Timestamp) {
        match (change.old, change.new) {
            (None, Some(new)) => self.pod_added(&new, now),
            (Some(old), None) => self.pod_deleted(&old, now),
            // A new pod with the name of a deleted one.
            (Some(old), Some(new)) if old.metadata.uid != new.metadata.uid => {
                self.pod_deleted(&old, now);
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
        let Some(profile) = profile_of(pod, &self.shared.profiles) else { return };
        let gate = self.shared.gate(pod, profile);
        self.queue.add(Arc::clone(pod), profile, gate, now);
        self.state.nominated.set(pod, &pod.nominated_node);
    }

    /// Handles a pod that the API server reports as assigned, by whichever scheduler.
    fn pod_placed(&mut self, pod: &Arc<Pod>, now: Timestamp) {
        self.state.cache.set_pod(pod);
        self.state.nominated.remove(&pod.metadata.uid);
        // A pod in its own binding cycle stays in the queue until that is over.
        if !self.queue.is_in_flight(&pod.metadata.uid) {
            self.queue.remove(&pod.metadata.uid);
        }
        self.wake(&ClusterEvent::PodPlaced(Arc::clone(pod)), now);
    }

    fn placed_pod_changed(&mut self, old: Arc<Pod>, new: Arc<Pod>, now: Timestamp) {
        if !old.is_assigned() {
            return self.pod_placed(&new, now);
        }
        self.state.cache.set_pod(&new);
        let changes = PodChanges::between(&old, &new);
        if changes.any() {
            self.wake(&ClusterEvent::PodChanged { old, new, changes }, now);
        }
    }

    fn pending_pod_changed(&mut self, old: Arc<Pod>, new: Arc<Pod>, now: Timestamp) {
        let uid = &new.metadata.uid;
        if self.state.cache.is_assumed(uid) {
            self.queue.update(&new);
            if new.is_terminating() && !old.is_terminating() && !self.reject_if_waiting(uid) {
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
            // Pods of at most its priority had counted it on its nominated node.
            self.wake(&ClusterEvent::PodGone(old), now);
        }
    }

    /// Retries a pod that changed itself, if the hints say so.
    fn wake_itself(&mut self, uid: &str, pod: &Pod, event: &ClusterEvent, now: Timestamp) {
        let shared = Arc::clone(&self.shared);
        let gate = |profile| shared.gate(pod, profile);
        if self.queue.is_gated(uid) {
            let gate = profile_of(pod, &shared.profiles).and_then(gate);
            self.queue.wake_one(uid, event.label(), Hint::AfterBackoff, gate, now);
        } else if let Some(refusal) = self.queue.refusal_of(uid) {
            let hint = self.hint(pod, refusal, event);
            if hint != Hint::Skip {
                self.queue.wake_one(uid, event.label(), hint, gate(refusal.profile), now);
            }
        }
    }

    /// Keeps a nomination made here when an update arrives that does not contain it yet.
    fn renominate(&mut self, old: &Pod, new: &Arc<Pod>) {
        if old.nominated_node != new.nominated_node {
            self.state.nominated.set(new, &new.nominated_node);
        } else if let Some(node) = self.state.nominated.node_of(&new.metadata.uid).map(str::to_owned) {
            self.state.nominated.set(new, &node);
        }
    }

    fn pod_deleted(&mut self, pod: &Arc<Pod>, now: Timestamp) {
        let uid = &pod.metadata.uid;
        self.queue.remove(uid);
        self.state.nominated.remove(uid);
        if pod.is_assigned() {
            self.state.cache.remove_pod(uid);
            self.wake(&ClusterEvent::PodGone(Arc::clone(pod)), now);
        } else if !self.reject_if_waiting(uid) && !self.forget(uid, now) && !pod.nominated_node.is_empty() {
            self.wake(&ClusterEvent::PodGone(Arc::clone(pod)), now);
        }
    }

    /// Rejects a waiting pod that was deleted or is terminating. False if it does not wait.
    fn reject_if_waiting(&self, uid: &str) -> bool {
        let waiting = self.shared.waiting.get(&self.state.cluster, uid);
        waiting.is_some_and(|waiting| waiting.reject("", "removed"))
    }

    /// Undoes the assumption of a pod. False if it was not assumed.
    pub(super) fn forget(&mut self, uid: &str, now: Timestamp) -> bool {
        let Some(forgotten) = self.state.cache.forget(uid) else { return false };
        self.wake(&ClusterEvent::PodGone(forgotten), now);
        true
    }

    /// Moves the pods that an event may make schedulable.
    pub(super) fn wake(&mut self, event: &ClusterEvent, now: Timestamp) {
        let shared = Arc::clone(&self.shared);
        let about = event.about();
        let is_new_node = matches!(event, ClusterEvent::NodeAdded(_));
        let subscribers: Vec<_> = shared.profiles.iter().map(|profile| profile.subscribers(about)).collect();
        let wants = |refusal: Refusal| {
            if refusal.plugins.is_empty() {
                is_new_node
            } else {
                refusal.plugins.meets(subscribers[refusal.profile])
            }
        };
        let (state, calls) = (&self.state, Cell::new(0));
        let helps = |pod: &Pod, refusal: Refusal| {
            if refusal.plugins.is_empty() {
                return Hint::AfterBackoff;
            }
            calls.set(calls.get() + 1);
            hint(&shared, state, pod, refusal, event, calls.get() <= TIMED_HINTS)
        };
        // An event during the wait for Permit plugins counts if the pod is rejected in the end.
        for held in self.held.values_mut().filter(|held| wants(held.refusal)) {
            let hint = helps(&held.pod, held.refusal);
            held.hint = held.hint.max(hint);
        }
        self.queue.wake(event.label(), now, wants, helps, |pod, profile| shared.gate(pod, profile));
    }

    fn hint(&self, pod: &Pod, refusal: Refusal, event: &ClusterEvent) -> Hint {
        hint(&self.shared, &self.state, pod, refusal, event, true)
    }

    /// Activates a pod on behalf of a plugin.
    pub(super) fn activate(&mut self, uid: &str, now: Timestamp) {
        let Some((pod, profile)) = self.queue.get(uid).cloned().zip(self.queue.profile_of(uid)) else {
            return;
        };
        let gate = self.shared.gate(&pod, profile);
        self.queue.force(uid, gate, now);
        if let Some(held) = self.held.get_mut(uid) {
            held.hint = Hint::Immediately;
        }
    }

    /// True if the cluster has neither nodes nor pods, so that its state can be dropped.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.state.cache.is_empty()
    }
}

impl Drop for Cluster {
    /// Removes the cluster from the metrics.
    fn drop(&mut self) {
        let [nodes, pods, assumed] = self.counted.map(|count| -(count as f64));
        self.shared.metrics.cached([nodes, pods, assumed]);
    }
}

/// The hint of the plugins that rejected a pod.
fn hint(
    shared: &SchedulerShared,
    state: &ClusterState,
    pod: &Pod,
    refusal: Refusal,
    event: &ClusterEvent,
    is_timed: bool,
) -> Hint {
    shared.profiles[refusal.profile].hint(refusal, |plugin| {
        if !is_timed {
            return plugin.hint(state, pod, event);
        }
        let began = shared.clock.uptime();
        let helps = plugin.hint(state, pod, event);
        let took = shared.clock.uptime().saturating_sub(began);
        shared.metrics.hinted(plugin.name(), event.label(), helps, took);
        helps
    })
}

/// The profile of a pod; none if another scheduler is responsible.
fn profile_of(pod: &Pod, profiles: &[Profile]) -> Option<usize> {
    profiles.iter().position(|profile| profile.scheduler_name == pod.scheduler_name)
}

fn update_map<V>(map: &mut std::collections::HashMap<Box<str>, Arc<V>>, name: &str, new: &Option<Arc<V>>) {
    match new {
        Some(new) => drop(map.insert(name.into(), Arc::clone(new))),
        None => drop(map.remove(name)),
    }
}

fn update_named_map<V>(
    map: &mut std::collections::HashMap<(Box<str>, Box<str>), Arc<V>>,
    key: &ObjectKey,
    new: &Option<Arc<V>>,
) {
    let key = (key.namespace().into(), key.name().into());
    match new {
        Some(new) => drop(map.insert(key, Arc::clone(new))),
        None => drop(map.remove(&key)),
    }
}
