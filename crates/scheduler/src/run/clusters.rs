//! All clusters. Pods are taken from them in turn.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use coracle_base::{Rng, Timestamp};
use coracle_runtime::ClusterId;

use super::cluster::{Cluster, SchedulerShared};
use crate::queue::Popped;

/// The state of every cluster that has nodes or pods.
pub(super) struct Clusters {
    shared: Arc<SchedulerShared>,
    rng: Rng,
    clusters: HashMap<ClusterId, Cluster>,
    /// Clusters with a pod that can be popped, in turn.
    ready: VecDeque<ClusterId>,
    is_ready: HashSet<ClusterId>,
    /// The next time at which each cluster's queue has work to do.
    deadlines: BTreeSet<(Timestamp, ClusterId)>,
    deadline_of: HashMap<ClusterId, Timestamp>,
}

impl Clusters {
    pub(super) fn new(shared: Arc<SchedulerShared>, rng: Rng) -> Self {
        Self {
            shared,
            rng,
            clusters: HashMap::new(),
            ready: VecDeque::new(),
            is_ready: HashSet::new(),
            deadlines: BTreeSet::new(),
            deadline_of: HashMap::new(),
        }
    }

    /// Runs `act` on a cluster, which is created if needed and dropped afterwards if it is empty.
    pub(super) fn with<T>(&mut self, id: &ClusterId, act: impl FnOnce(&mut Cluster) -> T) -> T {
        let cluster = self.clusters.entry(id.clone()).or_insert_with(|| {
            Cluster::new(id.clone(), Arc::clone(&self.shared), Rng::seeded(self.rng.u64()))
        });
        let result = act(cluster);
        cluster.count();
        let (is_ready, deadline) = (cluster.queue.is_ready(), cluster.queue.deadline());
        if cluster.is_empty() {
            self.clusters.remove(id);
        }
        if is_ready && self.is_ready.insert(id.clone()) {
            self.ready.push_back(id.clone());
        }
        self.set_deadline(id, deadline);
        result
    }

    /// True if the cluster has nodes or pods.
    pub(super) fn contains(&self, id: &ClusterId) -> bool {
        self.clusters.contains_key(id)
    }

    pub(super) fn ids(&self) -> Vec<ClusterId> {
        self.clusters.keys().cloned().collect()
    }

    /// The next pod of the next cluster that has one.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(ClusterId, Popped)> {
        while let Some(id) = self.ready.pop_front() {
            self.is_ready.remove(&id);
            if let Some(popped) = self.with(&id, |cluster| cluster.queue.pop(now)) {
                return Some((id, popped));
            }
        }
        None
    }

    /// True if a pod can be popped.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next time at which [`Self::flush`] has work to do.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Flushes the queues whose deadline has passed.
    pub(super) fn flush(&mut self, now: Timestamp) {
        while let Some((_, id)) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now) {
            let id = id.clone();
            self.with(&id, |cluster| cluster.queue.flush(now));
        }
    }

    /// Number of pods that are retried at a later time.
    pub(super) fn delayed(&self) -> usize {
        self.clusters.values().map(|cluster| cluster.queue.waiting()).sum()
    }

    fn set_deadline(&mut self, id: &ClusterId, deadline: Option<Timestamp>) {
        let previous = self.deadline_of.get(id).copied();
        if previous == deadline {
            return;
        }
        if let Some(previous) = previous {
            self.deadlines.remove(&(previous, id.clone()));
            self.deadline_of.remove(id);
        }
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, id.clone()));
            self.deadline_of.insert(id.clone(), deadline);
        }
    }
}
