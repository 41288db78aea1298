//! Which pod is scheduled next, and when pods that found no place are tried again.
//!
//! A pod is active (next in its turn), backing off (was refused, and something has changed since), parked
//! (was refused, and nothing has changed that could help it), held back (its gates say so), or in flight.
//! Parked pods are woken by events that a plugin which refused them thinks may help. Only as a safety net
//! they are tried again after five minutes, as upstream does it.

mod entry;
mod nominated;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use coracle_base::Timestamp;

pub(crate) use entry::Backoff;
use entry::{BackoffKey, Entry, Place, Turn};
pub(crate) use nominated::Nominated;

use crate::framework::PluginSet;
use crate::view::Pod;

/// Pods that wait, by the identity of each.
#[derive(Debug)]
pub(crate) struct Queue {
    backoff: Backoff,
    entries: HashMap<Box<str>, Entry>,
    active: BTreeMap<Turn, Box<str>>,
    backing_off: BTreeMap<BackoffKey, Box<str>>,
    /// Those that could not be tried at all. Nothing is to be gained by trying them earlier.
    failed: BTreeMap<BackoffKey, Box<str>>,
    /// Parked pods, by who has refused them.
    parked: HashMap<Refusal, HashSet<Box<str>>>,
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
}

/// A pod that is to be tried now.
#[derive(Clone, Debug)]
pub(crate) struct Popped {
    pub(crate) pod: Arc<Pod>,
    pub(crate) profile: usize,
}

impl Queue {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            entries: HashMap::new(),
            active: BTreeMap::new(),
            backing_off: BTreeMap::new(),
            failed: BTreeMap::new(),
            parked: HashMap::new(),
            parked_since: BTreeSet::new(),
            added: 0,
        }
    }

    /// Adds a pod that has come, or whose last attempt is forgotten.
    pub(crate) fn add(&mut self, pod: Arc<Pod>, profile: usize, gated: bool, now: Timestamp) {
        self.remove(&pod.metadata.uid);
        self.added += 1;
        let mut entry = Entry::new(pod, profile, self.added, now);
        entry.place = if gated { Place::Gated } else { self.activate(&entry) };
        self.entries.insert(entry.pod.metadata.uid.clone(), entry);
    }

    /// Forgets a pod.
    pub(crate) fn remove(&mut self, uid: &str) -> Option<Arc<Pod>> {
        self.leave(uid);
        self.entries.remove(uid).map(|entry| entry.pod)
    }

    /// What is known of a pod that waits or is in flight.
    pub(crate) fn get(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.entries.get(uid).map(|entry| &entry.pod)
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

    /// Whether a pod is held back by its gates.
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
        let next = self.active.pop_first().map(|(_, uid)| uid);
        let uid = next.or_else(|| self.backing_off.pop_first().map(|(_, uid)| uid))?;
        let entry = self.entries.get_mut(&uid)?;
        entry.place = Place::InFlight;
        Some(Popped { pod: Arc::clone(&entry.pod), profile: entry.profile })
    }

    /// Parks a pod in flight that was refused.
    pub(crate) fn refused(&mut self, uid: &str, plugins: PluginSet, now: Timestamp) {
        self.again(uid, now, |entry| {
            entry.refused_by = plugins;
            entry.refusals += 1;
            entry.failures = 0;
        });
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.place = Place::Parked(now);
            self.parked.entry(entry.refusal()).or_default().insert(uid.into());
            self.parked_since.insert((now, uid.into()));
        }
    }

    /// A pod in flight was refused, and something is being done about it: it is tried again.
    pub(crate) fn retry(&mut self, uid: &str, plugins: PluginSet, now: Timestamp) {
        self.refused(uid, plugins, now);
        self.wake_one(uid, now);
    }

    /// A pod in flight could not be brought to its node for a reason that is not its own.
    pub(crate) fn failed(&mut self, uid: &str, now: Timestamp) {
        self.again(uid, now, |entry| entry.failures += 1);
        if let Some(entry) = self.entries.get_mut(uid) {
            let key = (self.backoff.until_after_failures(entry), entry.turn());
            entry.place = Place::Failed(key);
            self.failed.insert(key, uid.into());
        }
    }

    /// Wakes the parked pods that `may_be_helped`, of those refused by somebody who `wants` to know.
    pub(crate) fn wake(
        &mut self,
        now: Timestamp,
        wants: impl Fn(Refusal) -> bool,
        may_be_helped: impl Fn(&Pod, Refusal) -> bool,
    ) {
        let mut helped = Vec::new();
        for (refusal, pods) in self.parked.iter().filter(|(refusal, _)| wants(**refusal)) {
            let parked = pods.iter().filter_map(|uid| self.entries.get(uid));
            let woken = parked.filter(|entry| may_be_helped(&entry.pod, *refusal));
            helped.extend(woken.map(|entry| (entry.added, entry.pod.metadata.uid.clone())));
        }
        helped.sort_unstable();
        for (_, uid) in helped {
            self.wake_one(&uid, now);
        }
    }

    /// Wakes a pod that is parked or held back.
    pub(crate) fn wake_one(&mut self, uid: &str, now: Timestamp) {
        self.leave(uid);
        let Some(entry) = self.entries.get_mut(uid) else { return };
        let until = self.backoff.until_after_refusals(entry);
        if self.backoff.is_over(until, now) {
            entry.place = Place::Active(entry.turn());
            self.active.insert(entry.turn(), uid.into());
        } else {
            let key = (until, entry.turn());
            entry.place = Place::BackingOff(key);
            self.backing_off.insert(key, uid.into());
        }
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
        while let Some((key, _)) =
            self.backing_off.first_key_value().filter(|(key, _)| self.backoff.is_over(key.0, now))
        {
            let key = *key;
            if let Some(uid) = self.backing_off.remove(&key) {
                self.activate_known(uid);
            }
        }
        while let Some((key, _)) = self.failed.first_key_value().filter(|(key, _)| key.0 <= now) {
            let key = *key;
            if let Some(uid) = self.failed.remove(&key) {
                self.activate_known(uid);
            }
        }
        let parked_at_most = self.backoff.parked_at_most;
        while let Some((_, uid)) =
            self.parked_since.first().filter(|(since, _)| *since + parked_at_most <= now)
        {
            let uid = uid.clone();
            self.wake_one(&uid, now);
        }
    }

    fn activate_known(&mut self, uid: Box<str>) {
        if let Some(entry) = self.entries.get_mut(&uid) {
            entry.place = Place::Active(entry.turn());
            self.active.insert(entry.turn(), uid);
        }
    }

    fn activate(&mut self, entry: &Entry) -> Place {
        self.active.insert(entry.turn(), entry.pod.metadata.uid.clone());
        Place::Active(entry.turn())
    }

    /// Notes another attempt at a pod.
    fn again(&mut self, uid: &str, now: Timestamp, change: impl FnOnce(&mut Entry)) {
        self.leave(uid);
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.since = now;
            change(entry);
        }
    }

    /// Takes a pod out of wherever it waits.
    fn leave(&mut self, uid: &str) {
        let Some(entry) = self.entries.get_mut(uid) else { return };
        match std::mem::replace(&mut entry.place, Place::InFlight) {
            Place::Active(turn) => drop(self.active.remove(&turn)),
            Place::BackingOff(key) => drop(self.backing_off.remove(&key)),
            Place::Failed(key) => drop(self.failed.remove(&key)),
            Place::Parked(since) => {
                let refusal = entry.refusal();
                self.parked_since.remove(&(since, uid.into()));
                if let Some(pods) = self.parked.get_mut(&refusal) {
                    pods.remove(uid);
                    if pods.is_empty() {
                        self.parked.remove(&refusal);
                    }
                }
            }
            Place::Gated | Place::InFlight => {}
        }
    }
}
