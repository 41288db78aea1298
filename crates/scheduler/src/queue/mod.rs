//! The scheduling queue: which pod is scheduled next, and when unschedulable pods are retried.
//!
//! A pod is active (ready to be scheduled), backing off (rejected, and a cluster event may have helped
//! since), parked (rejected, and no event has helped yet), gated (a PreEnqueue plugin holds it back), or in
//! flight. Parked and gated pods are moved by cluster events for which the hint of a plugin that rejected
//! them says so. As a safety net, parked pods are also retried after five minutes, as in kube-scheduler.

mod entry;
mod moving;
mod nominated;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use coracle_base::Timestamp;

pub(crate) use entry::{Backoff, PrioritySort};
use entry::{BackoffKey, Entry, PodState, SortKey};
pub(crate) use nominated::Nominated;

use crate::framework::{Hint, PluginSet, QueueSort};
use crate::metrics::{QueueName, SchedulerMetrics};
use crate::view::Pod;

/// Event labels for pods that enter a queue for another reason than a cluster event, under kube-scheduler's
/// names.
pub(crate) const ADDED: &str = "UnschedulablePodAdd";
const FAILURE: &str = "ScheduleAttemptFailure";
const BACKOFF_COMPLETE: &str = "BackoffComplete";
const POP_FROM_BACKOFF: &str = "PopFromBackoffQ";
const FORCE_ACTIVATE: &str = "ForceActivate";
const TIMEOUT: &str = "UnschedulableTimeout";

/// The pods without a node, by UID.
pub(crate) struct Queue {
    backoff: Backoff,
    sort: Arc<dyn QueueSort>,
    metrics: Arc<SchedulerMetrics>,
    entries: HashMap<Box<str>, Entry>,
    active: BTreeMap<SortKey, Box<str>>,
    backing_off: BTreeMap<BackoffKey, Box<str>>,
    /// Pods whose attempt failed with an error. Unlike those in `backing_off` they are never popped early.
    failed: BTreeMap<BackoffKey, Box<str>>,
    /// Parked and gated pods, by the plugins that rejected them.
    refused: HashMap<Refusal, HashSet<Box<str>>>,
    parked_since: BTreeSet<(Timestamp, Box<str>)>,
    added: u64,
}

/// The profile and the plugins that rejected a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Refusal {
    /// Index of the profile.
    pub(crate) profile: usize,
    /// Empty if the cluster had no nodes.
    pub(crate) plugins: PluginSet,
    /// The subset of plugins that wait for an operation in progress.
    pub(crate) pending: PluginSet,
}

/// A pod taken from the queue to be scheduled.
#[derive(Clone, Debug)]
pub(crate) struct Popped {
    pub(crate) pod: Arc<Pod>,
    pub(crate) profile: usize,
}

/// Scheduling history of a bound pod, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) attempts: u32,
    pub(crate) first_active: Option<Timestamp>,
    pub(crate) was_flushed: bool,
}

impl Queue {
    pub(crate) fn new(backoff: Backoff, sort: Arc<dyn QueueSort>, metrics: Arc<SchedulerMetrics>) -> Self {
        Self {
            backoff,
            sort,
            metrics,
            entries: HashMap::new(),
            active: BTreeMap::new(),
            backing_off: BTreeMap::new(),
            failed: BTreeMap::new(),
            refused: HashMap::new(),
            parked_since: BTreeSet::new(),
            added: 0,
        }
    }

    /// Adds a new pod, or one whose last attempt is to be ignored; gated if a plugin holds it back.
    pub(crate) fn add(&mut self, pod: Arc<Pod>, profile: usize, gate: Option<usize>, now: Timestamp) {
        self.remove(&pod.metadata.uid);
        self.added += 1;
        let uid = pod.metadata.uid.clone();
        self.entries.insert(uid.clone(), Entry::new(pod, profile, self.added, now));
        match gate {
            Some(plugin) => self.gate_pod(&uid, plugin, ADDED),
            None => self.activate(&uid, ADDED, now),
        }
    }

    /// Removes a pod.
    pub(crate) fn remove(&mut self, uid: &str) -> Option<Arc<Pod>> {
        let was_in_flight = self.is_in_flight(uid);
        self.leave(uid);
        let entry = self.entries.remove(uid)?;
        if was_in_flight {
            self.metrics.in_flight(-1.0);
        } else {
            self.metrics.unschedulable(entry.profile, entry.refused_by, -1.0);
        }
        Some(entry.pod)
    }

    /// A pod that waits or is in flight.
    pub(crate) fn get(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.entries.get(uid).map(|entry| &entry.pod)
    }

    pub(crate) fn history(&self, uid: &str) -> History {
        self.entries.get(uid).map_or_else(History::default, |entry| History {
            attempts: entry.attempts,
            first_active: entry.first_active,
            was_flushed: entry.was_flushed,
        })
    }

    /// True if a pod is in a scheduling or binding cycle.
    pub(crate) fn is_in_flight(&self, uid: &str) -> bool {
        self.entries.get(uid).is_some_and(|entry| matches!(entry.state, PodState::InFlight))
    }

    /// Replaces the cached version of a pod without moving it.
    pub(crate) fn update(&mut self, pod: &Arc<Pod>) {
        if let Some(entry) = self.entries.get_mut(&pod.metadata.uid) {
            entry.pod = Arc::clone(pod);
        }
    }

    /// True if a PreEnqueue plugin holds the pod back.
    pub(crate) fn is_gated(&self, uid: &str) -> bool {
        self.entries.get(uid).is_some_and(|entry| matches!(entry.state, PodState::Gated))
    }

    /// The plugins that rejected a parked pod.
    pub(crate) fn refusal_of(&self, uid: &str) -> Option<Refusal> {
        let entry = self.entries.get(uid)?;
        matches!(entry.state, PodState::Parked(..)).then(|| entry.refusal())
    }

    /// Takes the next pod, which is in flight then. If no pod is active, one that is backing off is taken
    /// early.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<Popped> {
        self.flush(now);
        let uid = match self.active.first_key_value() {
            Some((_, uid)) => uid.clone(),
            None => {
                let uid = self.backing_off.first_key_value()?.1.clone();
                self.metrics.incoming(QueueName::Active, POP_FROM_BACKOFF);
                uid
            }
        };
        self.leave(&uid);
        let entry = self.entries.get_mut(&uid)?;
        entry.attempts = entry.attempts.saturating_add(1);
        entry.first_active.get_or_insert(now);
        self.metrics.unschedulable(entry.profile, entry.refused_by, -1.0);
        self.metrics.in_flight(1.0);
        Some(Popped { pod: Arc::clone(&entry.pod), profile: entry.profile })
    }

    /// Parks a pod in flight that was rejected by `plugins`, of which some are `pending`.
    pub(crate) fn refused(&mut self, uid: &str, plugins: PluginSet, pending: PluginSet, now: Timestamp) {
        self.count_refusal(uid, plugins, pending, now);
        self.put(uid, PodState::Parked(now), FAILURE);
    }

    /// Moves a rejected pod in flight to the backoff queue, because preemption is under way or an event
    /// arrived during the attempt.
    pub(crate) fn retry(&mut self, uid: &str, plugins: PluginSet, pending: PluginSet, now: Timestamp) {
        self.count_refusal(uid, plugins, pending, now);
        self.requeue(uid, FAILURE, Hint::AfterBackoff, now);
    }

    /// Retries a pod in flight after an error that is not a rejection.
    pub(crate) fn failed(&mut self, uid: &str, now: Timestamp) {
        self.record_attempt(uid, now, |entry| {
            entry.failures += 1;
            entry.refused_by = PluginSet::default();
            entry.pending_for = PluginSet::default();
        });
        let Some(entry) = self.entries.get(uid) else { return };
        let key = (self.backoff.until_after_failures(entry), entry.sort_key(&*self.sort));
        self.put(uid, PodState::Failed(key), FAILURE);
    }

    /// Moves the pods for which an event's hint says so, among those rejected by plugins that `wants`
    /// selects. Pods that `gate` still holds back stay.
    pub(crate) fn wake(
        &mut self,
        event: &'static str,
        now: Timestamp,
        wants: impl Fn(Refusal) -> bool,
        helps: impl Fn(&Pod, Refusal) -> Hint,
        gate: impl Fn(&Pod, usize) -> Option<usize>,
    ) {
        let mut helped = Vec::new();
        for (refusal, pods) in self.refused.iter().filter(|(refusal, _)| wants(**refusal)) {
            let waiting = pods.iter().filter_map(|uid| self.entries.get(uid));
            let woken = waiting.filter_map(|entry| match helps(&entry.pod, *refusal) {
                Hint::Skip => None,
                hint => Some((entry.added, entry.pod.metadata.uid.clone(), hint)),
            });
            helped.extend(woken);
        }
        helped.sort_unstable_by_key(|(added, ..)| *added);
        for (_, uid, hint) in helped {
            let Some(entry) = self.entries.get(&uid) else { continue };
            let gate = gate(&entry.pod, entry.profile);
            self.wake_one(&uid, event, hint, gate, now);
        }
    }

    /// Moves a pod that is parked or gated; it is gated if a plugin holds it back.
    pub(crate) fn wake_one(
        &mut self,
        uid: &str,
        event: &'static str,
        hint: Hint,
        gate: Option<usize>,
        now: Timestamp,
    ) {
        match gate {
            Some(plugin) => self.gate_pod(uid, plugin, event),
            None => self.requeue(uid, event, hint, now),
        }
    }

    /// Activates a pod in any waiting state on a plugin's request; it is gated if a plugin holds it back.
    pub(crate) fn force(&mut self, uid: &str, gate: Option<usize>, now: Timestamp) {
        let waits = |entry: &Entry| !matches!(entry.state, PodState::Active(_) | PodState::InFlight);
        if self.entries.get(uid).is_some_and(waits) {
            self.wake_one(uid, FORCE_ACTIVATE, Hint::Immediately, gate, now);
        }
    }

    /// All pods that are not active or in flight, in the order in which they were added.
    pub(crate) fn waiting_pods(&self) -> Vec<Box<str>> {
        let mut waiting: Vec<_> = self.entries.values().map(|entry| (entry.added, &entry.pod)).collect();
        waiting.sort_unstable_by_key(|(added, _)| *added);
        waiting.into_iter().map(|(_, pod)| pod.metadata.uid.clone()).collect()
    }

    pub(crate) fn profile_of(&self, uid: &str) -> Option<usize> {
        self.entries.get(uid).map(|entry| entry.profile)
    }

    /// The next time at which [`Self::flush`] has work to do.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let failed = self.failed.first_key_value().map(|((until, _), _)| *until);
        let parked = self.parked_since.first().map(|(since, _)| *since + self.backoff.parked_at_most);
        failed.into_iter().chain(parked).min()
    }

    /// True if [`Self::pop`] returns a pod.
    pub(crate) fn is_ready(&self) -> bool {
        !(self.active.is_empty() && self.backing_off.is_empty())
    }

    /// Number of pods that are retried at a later time.
    pub(crate) fn waiting(&self) -> usize {
        self.failed.len() + self.parked_since.len()
    }

    /// True if no pod waits or is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Activates the pods whose backoff or maximum parking time is over.
    pub(crate) fn flush(&mut self, now: Timestamp) {
        let backoff = self.backoff;
        while let Some((_, uid)) =
            self.backing_off.first_key_value().filter(|(key, _)| backoff.is_over(key.0, now))
        {
            let uid = uid.clone();
            self.activate(&uid, BACKOFF_COMPLETE, now);
        }
        while let Some((_, uid)) = self.failed.first_key_value().filter(|(key, _)| key.0 <= now) {
            let uid = uid.clone();
            self.activate(&uid, BACKOFF_COMPLETE, now);
        }
        while let Some((_, uid)) =
            self.parked_since.first().filter(|(since, _)| *since + backoff.parked_at_most <= now)
        {
            let uid = uid.clone();
            if let Some(entry) = self.entries.get_mut(&uid) {
                entry.was_flushed = true;
            }
            self.requeue(&uid, TIMEOUT, Hint::AfterBackoff, now);
        }
    }
}

impl Drop for Queue {
    /// Removes the remaining pods from the metrics.
    fn drop(&mut self) {
        for uid in self.waiting_pods() {
            self.remove(&uid);
        }
    }
}
