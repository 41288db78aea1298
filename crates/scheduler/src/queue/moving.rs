//! Moves of pods between the parts of the queue, with their metrics.

use coracle_base::Timestamp;

use super::entry::{Entry, PodState};
use super::{Queue, Refusal};
use crate::framework::{Hint, PluginSet};
use crate::metrics::QueueName;

impl Queue {
    pub(super) fn requeue(&mut self, uid: &str, event: &'static str, hint: Hint, now: Timestamp) {
        let Some(entry) = self.entries.get(uid) else { return };
        let until = self.backoff.until_after_refusals(entry);
        if hint == Hint::Immediately || self.backoff.is_over(until, now) {
            self.activate(uid, event, now);
        } else {
            let key = (until, entry.sort_key(&*self.sort));
            self.put(uid, PodState::BackingOff(key), event);
        }
    }

    pub(super) fn activate(&mut self, uid: &str, event: &'static str, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(uid) else { return };
        entry.first_active.get_or_insert(now);
        let sort_key = entry.sort_key(&*self.sort);
        self.put(uid, PodState::Active(sort_key), event);
    }

    /// Gates a pod on behalf of a plugin.
    pub(super) fn gate_pod(&mut self, uid: &str, plugin: usize, event: &'static str) {
        let is_new = !self.is_gated(uid);
        self.leave(uid);
        let Some(entry) = self.entries.get_mut(uid) else { return };
        if !entry.refused_by.contains(plugin) {
            entry.refused_by.insert(plugin);
            self.metrics.unschedulable(entry.profile, [plugin].into_iter().collect(), 1.0);
        }
        entry.was_flushed = false;
        self.enter(uid, PodState::Gated);
        if is_new {
            self.metrics.incoming(QueueName::Gated, event);
        }
    }

    /// Records a rejected attempt.
    pub(super) fn count_refusal(
        &mut self,
        uid: &str,
        plugins: PluginSet,
        pending: PluginSet,
        now: Timestamp,
    ) {
        self.record_attempt(uid, now, |entry| {
            entry.refused_by = plugins;
            entry.pending_for = pending;
            entry.refusals += 1;
            entry.failures = 0;
        });
        if let Some(entry) = self.entries.get(uid) {
            self.metrics.unschedulable(entry.profile, plugins, 1.0);
        }
    }

    /// Records an attempt.
    pub(super) fn record_attempt(&mut self, uid: &str, now: Timestamp, change: impl FnOnce(&mut Entry)) {
        if self.is_in_flight(uid) {
            self.metrics.in_flight(-1.0);
        }
        self.leave(uid);
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.since = now;
            entry.was_flushed = false;
            change(entry);
        }
    }

    /// Moves a pod because of an event.
    pub(super) fn put(&mut self, uid: &str, state: PodState, event: &'static str) {
        self.leave(uid);
        self.enter(uid, state);
        if let Some(queue) = state.queue() {
            self.metrics.incoming(queue, event);
        }
    }

    pub(super) fn enter(&mut self, uid: &str, state: PodState) {
        let Some(entry) = self.entries.get_mut(uid) else { return };
        entry.state = state;
        match state {
            PodState::Active(sort_key) => drop(self.active.insert(sort_key, uid.into())),
            PodState::BackingOff(key) => drop(self.backing_off.insert(key, uid.into())),
            PodState::Failed(key) => drop(self.failed.insert(key, uid.into())),
            PodState::Parked(since) => {
                self.refused.entry(entry.refusal()).or_default().insert(uid.into());
                self.parked_since.insert((since, uid.into()));
            }
            PodState::Gated => drop(self.refused.entry(entry.refusal()).or_default().insert(uid.into())),
            PodState::InFlight => {}
        }
        if let Some(queue) = state.queue() {
            self.metrics.pending(queue, 1.0);
        }
    }

    /// Removes a pod from the part of the queue it is in.
    pub(super) fn leave(&mut self, uid: &str) {
        let Some(entry) = self.entries.get_mut(uid) else { return };
        let state = std::mem::replace(&mut entry.state, PodState::InFlight);
        let refusal = entry.refusal();
        match state {
            PodState::Active(sort_key) => drop(self.active.remove(&sort_key)),
            PodState::BackingOff(key) => drop(self.backing_off.remove(&key)),
            PodState::Failed(key) => drop(self.failed.remove(&key)),
            PodState::Parked(since) => {
                self.parked_since.remove(&(since, uid.into()));
                self.leave_refused(uid, refusal);
            }
            PodState::Gated => self.leave_refused(uid, refusal),
            PodState::InFlight => {}
        }
        if let Some(queue) = state.queue() {
            self.metrics.pending(queue, -1.0);
        }
    }

    pub(super) fn leave_refused(&mut self, uid: &str, refusal: Refusal) {
        if let Some(pods) = self.refused.get_mut(&refusal) {
            pods.remove(uid);
            if pods.is_empty() {
                self.refused.remove(&refusal);
            }
        }
    }
}
