//! Work queue with deduplicated keys.
//!
//! A key is in the queue at most once, however often it is added. No two workers process the same key at the same
//! time; a key added while a worker processes it is processed again afterwards. A failed key returns after a delay
//! that doubles with each failure.

mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_base::Rng;
use coracle_base::metrics::Histogram;
use tokio::sync::Notify;
use tokio::time::Instant;

use state::{Added, Durations, Next, State};
pub use state::{Counts, Depth};

/// Maximum number of keys in a queue, whether waiting, processing or delayed: a few dozen megabytes. Adding one more
/// blocks, which stops reading the watch until the server closes it and the informer relists. Nothing is lost, and
/// memory stays bounded.
pub const MAX_KEYS: usize = 200_000;

/// First and longest retry delay: those of client-go (`DefaultTypedControllerRateLimiter` in `util/workqueue`).
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LAST_RETRY: Duration = Duration::from_secs(1000);

/// Result of processing a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Succeeded; the key is processed again when it is added again.
    Done,
    /// Succeeded; the key is processed again after this time at the latest.
    After(Duration),
    /// Failed; the key is retried with backoff.
    Failed,
}

/// Order of waiting keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Keys of changed objects.
    #[default]
    Normal,
    /// Keys of listed objects, which were probably reconciled before. However many a restart brings, changes do not
    /// wait behind them.
    Low,
}

/// Requirements of a queue's keys.
pub trait Key: Clone + Eq + Ord + Hash + Send + 'static {}

impl<K: Clone + Eq + Ord + Hash + Send + 'static> Key for K {}

/// A work queue. Clones share the same queue.
pub struct Queue<K: Key> {
    shared: Arc<Shared<K>>,
}

struct Shared<K: Key> {
    state: Mutex<State<K>>,
    durations: Arc<Durations>,
    /// Notified when a key may be ready, or the earliest deadline has changed.
    ready: Notify,
    /// Notified when a key is removed, so that there may be room for another.
    room: Notify,
    /// Notified when no key is waiting or processing.
    quiet: Notify,
}

impl<K: Key> Queue<K> {
    /// Creates an empty queue that draws its retry delays from `rng`.
    pub fn new(rng: Rng) -> Self {
        Self::with_limit(MAX_KEYS, rng)
    }

    /// Like [`Queue::new`], with another limit than [`MAX_KEYS`].
    pub fn with_limit(max_keys: usize, rng: Rng) -> Self {
        let state = State::new(max_keys, FIRST_RETRY, LAST_RETRY, rng);
        let durations = Arc::clone(state.durations());
        let (ready, room, quiet) = (Notify::new(), Notify::new(), Notify::new());
        Self { shared: Arc::new(Shared { state: Mutex::new(state), durations, ready, room, quiet }) }
    }

    /// Draws retry delays from `rng` from now on.
    pub fn set_rng(&self, rng: Rng) {
        self.state().rng = rng;
    }

    /// Caps the retry delay from now on.
    pub fn retry_within(&self, longest: Duration) {
        self.state().last_retry = longest;
    }

    /// Adds a key to be processed now. Waits while the queue is full. A closed queue ignores the key and does not
    /// wait. If the future is dropped while it waits, nothing is added.
    pub async fn add(&self, key: K) {
        self.add_with(key, Priority::default()).await;
    }

    /// Like [`Queue::add`], with a priority. A key that is already waiting keeps the more urgent priority.
    pub async fn add_with(&self, key: K, priority: Priority) {
        self.put(|state| state.add(&key, priority, Instant::now())).await;
    }

    /// Adds a key to be processed now, and returns false if the queue is full. For workers, which must not wait for
    /// room that only they can make.
    #[must_use]
    pub fn try_add(&self, key: &K) -> bool {
        let added = self.state().add(key, Priority::default(), Instant::now());
        if added == Added::Ready {
            self.shared.ready.notify_one();
        }
        added != Added::Full
    }

    /// Adds a key to be processed after `delay`. The earliest time counts, and processing a key cancels later times:
    /// each reconcile decides anew when to run again.
    pub async fn add_after(&self, key: K, delay: Duration) {
        let now = Instant::now();
        self.put(|state| state.add_at(&key, now + delay, now)).await;
    }

    async fn put(&self, mut add: impl FnMut(&mut State<K>) -> Added) {
        loop {
            let mut room = pin!(self.shared.room.notified());
            // Before the attempt, so that a key removed right after it is not missed.
            room.as_mut().enable();
            let added = add(&mut self.state());
            match added {
                Added::Ready => return self.shared.ready.notify_one(),
                Added::Nothing => return,
                Added::Full => room.await,
            }
        }
    }

    /// Returns the next key as soon as there is one, or `None` after [`Queue::close`]. Safe to drop while it waits.
    pub async fn take(&self) -> Option<Taken<K>> {
        loop {
            let mut ready = pin!(self.shared.ready.notified());
            // Before the attempt, so that a key added right after it is not missed.
            ready.as_mut().enable();
            let (next, more) = {
                let mut state = self.state();
                (state.next(Instant::now()), state.has_more())
            };
            match next {
                Next::Key(key) => {
                    if more {
                        // This worker is busy from now on: another one has to take the remaining keys, and to wait
                        // for the deadlines that this one waited for.
                        self.shared.ready.notify_one();
                    }
                    return Some(Taken { queue: self.clone(), key, outcome: Outcome::Failed });
                }
                // Both branches are safe to drop: they only wait.
                Next::At(due) => tokio::select! {
                    biased;
                    () = ready => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                Next::Nothing => ready.await,
                Next::Closed => return None,
            }
        }
    }

    /// Closes the queue: it accepts and returns no more keys. Keys in processing may finish.
    pub fn close(&self) {
        self.state().close();
        self.shared.ready.notify_waiters();
        self.shared.room.notify_waiters();
        self.shared.quiet.notify_waiters();
    }

    /// Waits until no key is waiting or processing. Delayed keys are not waited for.
    pub async fn quiet(&self) {
        loop {
            let mut quiet = pin!(self.shared.quiet.notified());
            quiet.as_mut().enable();
            if self.state().is_quiet() {
                return;
            }
            quiet.await;
        }
    }

    /// Number of keys by phase.
    pub fn depth(&self) -> Depth {
        self.state().depth()
    }

    /// Counters since the queue was created, and ages of waiting and processing keys.
    pub fn counts(&self) -> Counts {
        self.state().counts(Instant::now())
    }

    /// How long keys waited before a worker took them.
    pub fn waited(&self) -> &Histogram {
        &self.shared.durations.waited
    }

    /// How long workers processed keys.
    pub fn worked(&self) -> &Histogram {
        &self.shared.durations.worked
    }

    /// Number of keys taken since the queue was created.
    pub fn taken(&self) -> u64 {
        self.state().taken()
    }

    fn finish(&self, key: &K, outcome: Outcome) {
        let (again, removed, quiet) = {
            let mut state = self.state();
            let finished = state.finish(key, outcome, Instant::now());
            (finished.wakes, finished.removed, state.is_quiet())
        };
        if again {
            self.shared.ready.notify_one();
        }
        if removed {
            self.shared.room.notify_waiters();
        }
        if quiet {
            self.shared.quiet.notify_waiters();
        }
    }

    /// Each method of the state leaves it consistent, so a poisoned lock is harmless.
    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Key> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Key> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("depth", &self.depth()).finish_non_exhaustive()
    }
}

/// A key in processing by one worker. Dropping it without [`Taken::finish`], as a panic does, counts as a failure.
#[derive(Debug)]
pub struct Taken<K: Key> {
    queue: Queue<K>,
    key: K,
    outcome: Outcome,
}

impl<K: Key> Taken<K> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the key to the queue.
    pub fn finish(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl<K: Key> Drop for Taken<K> {
    fn drop(&mut self) {
        self.queue.finish(&self.key, self.outcome);
    }
}
