//! State of a queue as plain data: no locks, no waiting; the caller passes the time.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use coracle_base::metrics::{Buckets, Histogram};
use coracle_base::{Backoff, Rng};
use tokio::time::Instant;

use super::{Key, Outcome, Priority};

/// Number of keys in a queue by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Keys waiting for a worker.
    pub waiting: usize,
    /// Keys taken by a worker.
    pub processing: usize,
    /// Keys that return at a later time.
    pub delayed: usize,
}

/// Counters of a queue, and the ages of its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys that began to wait.
    pub added: u64,
    /// Keys that workers took.
    pub taken: u64,
    /// Failures, each of which is retried.
    pub retried: u64,
    /// Age of the key that has waited longest.
    pub oldest: Duration,
    /// Sum of the ages of all keys in processing.
    pub unfinished: Duration,
    /// Age of the key that has been processing longest.
    pub longest_running: Duration,
}

/// Histograms of the time that keys waited and were processed.
#[derive(Debug)]
pub(super) struct Durations {
    pub(super) waited: Histogram,
    pub(super) worked: Histogram,
}

impl Durations {
    pub(super) fn new() -> Self {
        // The buckets of `component-base/metrics/prometheus/workqueue`: ten nanoseconds to some minutes.
        let buckets = Buckets::exponential(10e-9, 10.0, 12);
        Self { waited: Histogram::with_buckets(&buckets), worked: Histogram::with_buckets(&buckets) }
    }
}

/// Result of adding a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// A worker has to be notified.
    Ready,
    /// The key is already queued, or the queue is closed.
    Nothing,
    Full,
}

/// Next step for a worker.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<K> {
    Key(K),
    /// Wait until then.
    At(Instant),
    Nothing,
    Closed,
}

/// Effects of finishing a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finished {
    /// A key is ready, or there is a new deadline.
    pub(super) wakes: bool,
    /// The key has been removed from the queue.
    pub(super) removed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Only delayed, or about to be removed.
    Idle,
    /// In `waiting`, exactly once.
    Waiting,
    Processing,
    /// Added again since a worker took it.
    ProcessingAgain,
}

#[derive(Debug)]
struct Entry {
    phase: Phase,
    /// Position in `waiting`, or the last one while a worker has the key.
    position: (Priority, u64),
    /// When the key began to wait, or a worker took it.
    since: Instant,
    /// When the key returns; the same as in `delayed`.
    due: Option<Instant>,
    /// Set by a failure, removed by a success. Few keys have one.
    backoff: Option<Box<Backoff>>,
}

#[derive(Debug)]
pub(super) struct State<K> {
    entries: HashMap<K, Entry>,
    /// By priority, then in the order of addition.
    waiting: BTreeSet<(Priority, u64, K)>,
    /// Number of the last position assigned.
    next_position: u64,
    delayed: BTreeSet<(Instant, K)>,
    processing: usize,
    counts: Counts,
    durations: Arc<Durations>,
    closed: bool,
    max_keys: usize,
    first_retry: Duration,
    pub(super) last_retry: Duration,
    pub(super) rng: Rng,
}

impl<K: Key> State<K> {
    pub(super) fn new(max_keys: usize, first_retry: Duration, last_retry: Duration, rng: Rng) -> Self {
        Self {
            entries: HashMap::new(),
            waiting: BTreeSet::new(),
            next_position: 0,
            delayed: BTreeSet::new(),
            processing: 0,
            counts: Counts::default(),
            durations: Arc::new(Durations::new()),
            closed: false,
            max_keys,
            first_retry,
            last_retry,
            rng,
        }
    }

    pub(super) fn add(&mut self, key: &K, priority: Priority, now: Instant) -> Added {
        match self.admit(key, now) {
            Ok(()) if self.enqueue(key, priority, now) => Added::Ready,
            Ok(()) => Added::Nothing,
            Err(refused) => refused,
        }
    }

    pub(super) fn add_at(&mut self, key: &K, due: Instant, now: Instant) -> Added {
        match self.admit(key, now) {
            Ok(()) if self.delay(key, due) => Added::Ready,
            Ok(()) => Added::Nothing,
            Err(refused) => refused,
        }
    }

    pub(super) fn next(&mut self, now: Instant) -> Next<K> {
        if self.closed {
            return Next::Closed;
        }
        self.wake_due(now);
        let Some((_, _, key)) = self.waiting.pop_first() else {
            return self.delayed.first().map_or(Next::Nothing, |(due, _)| Next::At(*due));
        };
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.phase = Phase::Processing;
            self.durations.waited.observe_duration(now.saturating_duration_since(entry.since));
            entry.since = now;
            // This processing covers the delayed one.
            if let Some(due) = entry.due.take() {
                self.delayed.remove(&(due, key.clone()));
            }
        }
        self.processing += 1;
        self.counts.taken += 1;
        Next::Key(key)
    }

    pub(super) fn finish(&mut self, key: &K, outcome: Outcome, now: Instant) -> Finished {
        self.processing = self.processing.saturating_sub(1);
        let Some(entry) = self.entries.get_mut(key) else {
            return Finished { wakes: false, removed: false };
        };
        let again = entry.phase == Phase::ProcessingAgain;
        let priority = entry.position.0;
        entry.phase = Phase::Idle;
        self.durations.worked.observe_duration(now.saturating_duration_since(entry.since));
        self.counts.retried += u64::from(outcome == Outcome::Failed);
        let delay = match outcome {
            Outcome::Done => None,
            Outcome::After(delay) => Some(delay),
            Outcome::Failed => Some(self.retry_delay(key)),
        };
        if outcome != Outcome::Failed
            && let Some(entry) = self.entries.get_mut(key)
        {
            entry.backoff = None;
        }
        let delayed = delay.is_some_and(|delay| !self.closed && self.delay(key, now + delay));
        let again = again && !self.closed && self.enqueue(key, priority, now);
        Finished { wakes: again || delayed, removed: self.remove_if_idle(key) }
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.waiting.clear();
        self.delayed.clear();
        // Workers still hold the other keys.
        self.entries.retain(|_, entry| matches!(entry.phase, Phase::Processing | Phase::ProcessingAgain));
        for entry in self.entries.values_mut() {
            entry.due = None;
        }
    }

    /// True if there is a key to take or a deadline to wait for.
    pub(super) fn has_more(&self) -> bool {
        !self.waiting.is_empty() || !self.delayed.is_empty()
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.processing == 0
    }

    pub(super) fn durations(&self) -> &Arc<Durations> {
        &self.durations
    }

    pub(super) fn taken(&self) -> u64 {
        self.counts.taken
    }

    pub(super) fn counts(&self, now: Instant) -> Counts {
        let mut counts = self.counts;
        for entry in self.entries.values() {
            let age = now.saturating_duration_since(entry.since);
            match entry.phase {
                Phase::Waiting => counts.oldest = counts.oldest.max(age),
                Phase::Processing | Phase::ProcessingAgain => {
                    counts.longest_running = counts.longest_running.max(age);
                    counts.unfinished += age;
                }
                Phase::Idle => {}
            }
        }
        counts
    }

    pub(super) fn depth(&self) -> Depth {
        Depth { waiting: self.waiting.len(), processing: self.processing, delayed: self.delayed.len() }
    }

    /// Makes sure that the key has an entry. A key that has one is always accepted, so that no worker waits to return
    /// a key.
    fn admit(&mut self, key: &K, now: Instant) -> Result<(), Added> {
        if self.closed {
            return Err(Added::Nothing);
        }
        if !self.entries.contains_key(key) {
            if self.entries.len() >= self.max_keys {
                return Err(Added::Full);
            }
            let position = (Priority::default(), 0);
            let entry = Entry { phase: Phase::Idle, position, since: now, due: None, backoff: None };
            self.entries.insert(key.clone(), entry);
        }
        Ok(())
    }

    /// True if the key began to wait for a worker.
    fn enqueue(&mut self, key: &K, priority: Priority, now: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        match entry.phase {
            Phase::Idle => {
                self.next_position += 1;
                self.counts.added += 1;
                *entry = Entry {
                    phase: Phase::Waiting,
                    position: (priority, self.next_position),
                    since: now,
                    due: entry.due,
                    backoff: entry.backoff.take(),
                };
                self.waiting.insert((priority, self.next_position, key.clone()))
            }
            Phase::Waiting if priority < entry.position.0 => {
                // It moves to the position it would have had with this priority from the beginning.
                let (known, position) = entry.position;
                entry.position = (priority, position);
                self.waiting.remove(&(known, position, key.clone()));
                self.waiting.insert((priority, position, key.clone()));
                false
            }
            Phase::Processing | Phase::ProcessingAgain => {
                let again = entry.phase == Phase::ProcessingAgain;
                entry.position.0 = if again { priority.min(entry.position.0) } else { priority };
                entry.phase = Phase::ProcessingAgain;
                false
            }
            Phase::Waiting => false,
        }
    }

    /// True if it is now the earliest delayed key.
    fn delay(&mut self, key: &K, due: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        if entry.due.is_some_and(|known| known <= due) {
            return false;
        }
        if let Some(known) = entry.due.replace(due) {
            self.delayed.remove(&(known, key.clone()));
        }
        self.delayed.insert((due, key.clone()));
        self.delayed.first().is_some_and(|(_, first)| first == key)
    }

    fn wake_due(&mut self, now: Instant) {
        while let Some((_, key)) = self.delayed.first().filter(|(due, _)| *due <= now) {
            let key = key.clone();
            self.delayed.pop_first();
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.due = None;
            }
            self.enqueue(&key, Priority::default(), now);
        }
    }

    fn retry_delay(&mut self, key: &K) -> Duration {
        let Some(entry) = self.entries.get_mut(key) else { return self.first_retry };
        let (first, last) = (self.first_retry, self.last_retry);
        let seed = &mut self.rng;
        let fresh = || Box::new(Backoff::new(first, last, Rng::seeded(seed.u64())));
        entry.backoff.get_or_insert_with(fresh).next_delay()
    }

    fn remove_if_idle(&mut self, key: &K) -> bool {
        let is_idle = |entry: &Entry| entry.phase == Phase::Idle && entry.due.is_none();
        self.entries.get(key).is_some_and(is_idle) && self.entries.remove(key).is_some()
    }
}

#[cfg(test)]
impl<K: Key> State<K> {
    /// Number of keys; panics if redundant fields disagree.
    pub(super) fn check(&self) -> usize {
        let counted = |phases: &[Phase]| self.entries.values().filter(|e| phases.contains(&e.phase)).count();
        assert_eq!(counted(&[Phase::Waiting]), self.waiting.len());
        assert_eq!(counted(&[Phase::Processing, Phase::ProcessingAgain]), self.processing);
        assert!(self.delayed.iter().all(|(due, key)| self.entries[key].due == Some(*due)));
        assert_eq!(self.entries.values().filter(|entry| entry.due.is_some()).count(), self.delayed.len());
        self.entries.len()
    }
}
