//! What a queue knows, as plain data: no locks, no waiting, and the time is handed in.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use coracle_base::metrics::{Buckets, Histogram};
use coracle_base::{Backoff, Rng};
use tokio::time::Instant;

use super::{Key, Outcome, Priority};

/// How much there is in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Keys that wait for a worker.
    pub waiting: usize,
    /// Keys that a worker has.
    pub processing: usize,
    /// Keys that come back at some time.
    pub delayed: usize,
}

/// What a queue has done since the beginning, and how long what it has is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys that began to wait.
    pub added: u64,
    /// Keys that were handed out.
    pub taken: u64,
    /// How often work failed and was to be done again.
    pub retried: u64,
    /// How long the key waits that has waited longest.
    pub oldest: Duration,
    /// How long the work has lasted that is not done, all together.
    pub unfinished: Duration,
    /// How long the work lasts that has lasted longest and is not done.
    pub longest_running: Duration,
}

/// How long keys waited and were worked on, since the beginning.
#[derive(Debug)]
pub(super) struct Durations {
    pub(super) waited: Histogram,
    pub(super) worked: Histogram,
}

impl Durations {
    pub(super) fn new() -> Self {
        // As upstream's (`component-base/metrics/prometheus/workqueue`): ten nanoseconds to some minutes.
        let buckets = Buckets::exponential(10e-9, 10.0, 12);
        Self { waited: Histogram::with_buckets(&buckets), worked: Histogram::with_buckets(&buckets) }
    }
}

/// What became of an attempt to add.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// A worker should look.
    Ready,
    /// No worker needs to: it is there already, or the queue is closed.
    Nothing,
    Full,
}

/// What a worker may do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<K> {
    Key(K),
    /// Come back then.
    At(Instant),
    Nothing,
    Closed,
}

/// What follows from the end of some work.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finished {
    /// There is something to take, or a new deadline.
    pub(super) wakes: bool,
    /// The key is not known any more.
    pub(super) forgotten: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Only delayed.
    Resting,
    /// In `waiting`, exactly once.
    Waiting,
    Processing,
    /// Added since a worker took it.
    ProcessingAgain,
}

#[derive(Debug)]
struct Entry {
    phase: Phase,
    /// Where it is in `waiting`, or was before a worker took it.
    place: (Priority, u64),
    /// Since when it waits, or a worker has it.
    since: Instant,
    /// When it comes back; the same as in `delayed`.
    due: Option<Instant>,
    /// There since it failed, until it succeeds. Few keys have one.
    backoff: Option<Box<Backoff>>,
}

#[derive(Debug)]
pub(super) struct State<K> {
    entries: HashMap<K, Entry>,
    /// What is urgent first, and then in the order in which it came.
    waiting: BTreeSet<(Priority, u64, K)>,
    /// Counts what came.
    next_place: u64,
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
            next_place: 0,
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
            Ok(()) if self.make_ready(key, priority, now) => Added::Ready,
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
            // Whatever it was to come back for is seen now.
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
            return Finished { wakes: false, forgotten: false };
        };
        let again = entry.phase == Phase::ProcessingAgain;
        let priority = entry.place.0;
        entry.phase = Phase::Resting;
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
        let again = again && !self.closed && self.make_ready(key, priority, now);
        Finished { wakes: again || delayed, forgotten: self.forget_if_at_rest(key) }
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.waiting.clear();
        self.delayed.clear();
        // Workers still hold the others.
        self.entries.retain(|_, entry| matches!(entry.phase, Phase::Processing | Phase::ProcessingAgain));
        for entry in self.entries.values_mut() {
            entry.due = None;
        }
    }

    /// Whether another worker has something to do or to wait for.
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
                Phase::Resting => {}
            }
        }
        counts
    }

    pub(super) fn depth(&self) -> Depth {
        Depth { waiting: self.waiting.len(), processing: self.processing, delayed: self.delayed.len() }
    }

    /// Makes sure that there is an entry. Keys that are known always have room, so that no worker waits
    /// to give one back.
    fn admit(&mut self, key: &K, now: Instant) -> Result<(), Added> {
        if self.closed {
            return Err(Added::Nothing);
        }
        if !self.entries.contains_key(key) {
            if self.entries.len() >= self.max_keys {
                return Err(Added::Full);
            }
            let place = (Priority::default(), 0);
            let entry = Entry { phase: Phase::Resting, place, since: now, due: None, backoff: None };
            self.entries.insert(key.clone(), entry);
        }
        Ok(())
    }

    /// Whether it waits for a worker since now.
    fn make_ready(&mut self, key: &K, priority: Priority, now: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        match entry.phase {
            Phase::Resting => {
                self.next_place += 1;
                self.counts.added += 1;
                *entry = Entry {
                    phase: Phase::Waiting,
                    place: (priority, self.next_place),
                    since: now,
                    due: entry.due,
                    backoff: entry.backoff.take(),
                };
                self.waiting.insert((priority, self.next_place, key.clone()))
            }
            Phase::Waiting if priority < entry.place.0 => {
                // It goes to where it would be had it been as urgent from the beginning.
                let (known, place) = entry.place;
                entry.place = (priority, place);
                self.waiting.remove(&(known, place, key.clone()));
                self.waiting.insert((priority, place, key.clone()));
                false
            }
            Phase::Processing | Phase::ProcessingAgain => {
                let again = entry.phase == Phase::ProcessingAgain;
                entry.place.0 = if again { priority.min(entry.place.0) } else { priority };
                entry.phase = Phase::ProcessingAgain;
                false
            }
            Phase::Waiting => false,
        }
    }

    /// Whether it is now the first that comes back.
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
            self.make_ready(&key, Priority::default(), now);
        }
    }

    fn retry_delay(&mut self, key: &K) -> Duration {
        let Some(entry) = self.entries.get_mut(key) else { return self.first_retry };
        let (first, last) = (self.first_retry, self.last_retry);
        let seed = &mut self.rng;
        let fresh = || Box::new(Backoff::new(first, last, Rng::seeded(seed.u64())));
        entry.backoff.get_or_insert_with(fresh).next_delay()
    }

    fn forget_if_at_rest(&mut self, key: &K) -> bool {
        let at_rest = |entry: &Entry| entry.phase == Phase::Resting && entry.due.is_none();
        self.entries.get(key).is_some_and(at_rest) && self.entries.remove(key).is_some()
    }
}

#[cfg(test)]
impl<K: Key> State<K> {
    /// How many keys are known, and that everything said twice is said alike.
    pub(super) fn check(&self) -> usize {
        let counted = |phases: &[Phase]| self.entries.values().filter(|e| phases.contains(&e.phase)).count();
        assert_eq!(counted(&[Phase::Waiting]), self.waiting.len());
        assert_eq!(counted(&[Phase::Processing, Phase::ProcessingAgain]), self.processing);
        assert!(self.delayed.iter().all(|(due, key)| self.entries[key].due == Some(*due)));
        assert_eq!(self.entries.values().filter(|entry| entry.due.is_some()).count(), self.delayed.len());
        self.entries.len()
    }
}
