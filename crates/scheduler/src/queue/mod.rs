//! Which pod is scheduled next, and when pods that found no place are tried again.
//!
//! A pod is active (next in its turn), backing off (was refused, and something has changed since), parked
//! (was refused, and nothing has changed that could help it), held back (its gates say so), or in flight.
//! Parked pods, and those held back, are woken by events that a plugin which refused them thinks may help. Only
//! as a safety net parked ones are tried again after five minutes, as upstream does it.

mod entry;
mod moving;
mod nominated;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use coracle_base::Timestamp;

pub(crate) use entry::{Backoff, PrioritySort};
use entry::{BackoffKey, Entry, Place, Turn};
pub(crate) use nominated::Nominated;

use crate::framework::{Hint, PluginSet, QueueSort};
use crate::metrics::{QueueName, SchedulerMetrics};
use crate::view::Pod;

/// Because of what pods come to a queue, where it is not an event of the cluster: under upstream's names.
pub(crate) const ADDED: &str = "UnschedulablePodAdd";
const FAILURE: &str = "ScheduleAttemptFailure";
const BACKOFF_COMPLETE: &str = "BackoffComplete";
const POP_FROM_BACKOFF: &str = "PopFromBackoffQ";
const FORCE_ACTIVATE: &str = "ForceActivate";
const TIMEOUT: &str = "UnschedulableTimeout";

/// Pods that wait, by the identity of each.
pub(crate) struct Queue {
    backoff: Backoff,
    sort: Arc<dyn QueueSort>,
    metrics: Arc<SchedulerMetrics>,
    entries: HashMap<Box<str>, Entry>,
    active: BTreeMap<Turn, Box<str>>,
    backing_off: BTreeMap<BackoffKey, Box<str>>,
    /// Those that could not be tried at all. Nothing is to be gained by trying them earlier.
    failed: BTreeMap<BackoffKey, Box<str>>,
    /// Parked pods and those held back, by who has refused them.
    refused: HashMap<Refusal, HashSet<Box<str>>>,
    parked_since: BTreeSet<(Timestamp, Box<str>)>,
    added: u64,
}

/// Who refused a pod: which plugins of which profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Refusal {
    /// The place of the profile among all.
    pub(crate) profile: usize,
    /// None if there was no node to ask about.
    pub(crate) plugins: PluginSet,
    /// Who of them waits for something that was begun.
    pub(crate) pending: PluginSet,
}

/// A pod that is to be tried now.
#[derive(Clone, Debug)]
pub(crate) struct Popped {
    pub(crate) pod: Arc<Pod>,
    pub(crate) profile: usize,
}

/// How a pod that was bound came to be.
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

    /// Adds a pod that has come, or whose last attempt is forgotten; held back if a plugin does so.
    pub(crate) fn add(&mut self, pod: Arc<Pod>, profile: usize, gate: Option<usize>, now: Timestamp) {
        self.remove(&pod.metadata.uid);
        self.added += 1;
        let uid = pod.metadata.uid.clone();
        self.entries.insert(uid.clone(), Entry::new(pod, profile, self.added, now));
        match gate {
            Some(plugin) => self.hold_back(&uid, plugin, ADDED),
            None => self.activate(&uid, ADDED, now),
        }
    }

    /// Forgets a pod.
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

    /// What is known of a pod that waits or is in flight.
    pub(crate) fn get(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.entries.get(uid).map(|entry| &entry.pod)
    }

    /// How a pod came to be where it is.
    pub(crate) fn history(&self, uid: &str) -> History {
        self.entries.get(uid).map_or_else(History::default, |entry| History {
            attempts: entry.attempts,
            first_active: entry.first_active,
            was_flushed: entry.was_flushed,
        })
    }

    /// Whether a pod is being tried, or brought to its node.
    pub(crate) fn is_in_flight(&self, uid: &str) -> bool {
        self.entries.get(uid).is_some_and(|entry| matches!(entry.place, Place::InFlight))
    }

    /// Notes a newer version of a pod. It stays where it is.
    pub(crate) fn update(&mut self, pod: &Arc<Pod>) {
        if let Some(entry) = self.entries.get_mut(&pod.metadata.uid) {
            entry.pod = Arc::clone(pod);
        }
    }

    /// Whether a pod is held back.
    pub(crate) fn is_gated(&self, uid: &str) -> bool {
        self.entries.get(uid).is_some_and(|entry| matches!(entry.place, Place::Gated))
    }

    /// Who refused a pod that is parked.
    pub(crate) fn refusal_of(&self, uid: &str) -> Option<Refusal> {
        let entry = self.entries.get(uid)?;
        matches!(entry.place, Place::Parked(..)).then(|| entry.refusal())
    }

    /// Takes the next pod; it is in flight then. Those that back off are not waited for when nothing else
    /// is to be done.
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

    /// Parks a pod in flight that was refused by `plugins`, of which some are `pending`.
    pub(crate) fn refused(&mut self, uid: &str, plugins: PluginSet, pending: PluginSet, now: Timestamp) {
        self.count_refusal(uid, plugins, pending, now);
        self.put(uid, Place::Parked(now), FAILURE);
    }

    /// A pod in flight was refused, and something is being done about it, or has happened meanwhile: it is tried
    /// again.
    pub(crate) fn retry(&mut self, uid: &str, plugins: PluginSet, pending: PluginSet, now: Timestamp) {
        self.count_refusal(uid, plugins, pending, now);
        self.come_back(uid, FAILURE, Hint::AfterBackoff, now);
    }

    /// A pod in flight could not be brought to its node for a reason that is not its own.
    pub(crate) fn failed(&mut self, uid: &str, now: Timestamp) {
        self.again(uid, now, |entry| {
            entry.failures += 1;
            entry.refused_by = PluginSet::default();
            entry.pending_for = PluginSet::default();
        });
        let Some(entry) = self.entries.get(uid) else { return };
        let key = (self.backoff.until_after_failures(entry), entry.turn(&*self.sort));
        self.put(uid, Place::Failed(key), FAILURE);
    }

    /// Wakes the pods that an event helps, of those refused by somebody who `wants` to know. Who is held back by
    /// the `gate` then stays.
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

    /// Wakes a pod that is parked or held back; it is held back if a plugin does so.
    pub(crate) fn wake_one(
        &mut self,
        uid: &str,
        event: &'static str,
        hint: Hint,
        gate: Option<usize>,
        now: Timestamp,
    ) {
        match gate {
            Some(plugin) => self.hold_back(uid, plugin, event),
            None => self.come_back(uid, event, hint, now),
        }
    }

    /// Has a pod tried at once that waits for whatever, because a plugin wants it; it is held back if one does so.
    pub(crate) fn force(&mut self, uid: &str, gate: Option<usize>, now: Timestamp) {
        let waits = |entry: &Entry| !matches!(entry.place, Place::Active(_) | Place::InFlight);
        if self.entries.get(uid).is_some_and(waits) {
            self.wake_one(uid, FORCE_ACTIVATE, Hint::Immediately, gate, now);
        }
    }

    /// Every pod that waits for whatever, in the order in which they were added.
    pub(crate) fn waiting_pods(&self) -> Vec<Box<str>> {
        let mut waiting: Vec<_> = self.entries.values().map(|entry| (entry.added, &entry.pod)).collect();
        waiting.sort_unstable_by_key(|(added, _)| *added);
        waiting.into_iter().map(|(_, pod)| pod.metadata.uid.clone()).collect()
    }

    /// The profile of a pod that waits or is in flight.
    pub(crate) fn profile_of(&self, uid: &str) -> Option<usize> {
        self.entries.get(uid).map(|entry| entry.profile)
    }

    /// When to look again, should nothing happen before.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let failed = self.failed.first_key_value().map(|((until, _), _)| *until);
        let parked = self.parked_since.first().map(|(since, _)| *since + self.backoff.parked_at_most);
        failed.into_iter().chain(parked).min()
    }

    /// Whether a pod can be tried at once.
    pub(crate) fn is_ready(&self) -> bool {
        !(self.active.is_empty() && self.backing_off.is_empty())
    }

    /// How many pods come back later.
    pub(crate) fn waiting(&self) -> usize {
        self.failed.len() + self.parked_since.len()
    }

    /// Whether no pod waits or is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Activates what has waited long enough.
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
            self.come_back(&uid, TIMEOUT, Hint::AfterBackoff, now);
        }
    }
}

impl Drop for Queue {
    /// Who was counted as waiting does not wait any more.
    fn drop(&mut self) {
        for uid in self.waiting_pods() {
            self.remove(&uid);
        }
    }
}
