//! The queue of what has to be looked at.
//!
//! A key is in it once, however often it is added. No two workers ever have the same key; what is added
//! while a worker has it is worked on again afterwards. A key that failed comes back after a delay that
//! doubles with each failure.

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

/// The most keys a queue knows of at a time, whether they wait, are worked on or are delayed: a few dozen
/// megabytes. Whoever adds one more waits, which stops the reading of a watch, until the server ends that
/// and the informer lists again: nothing is lost, and memory stays bounded.
pub const MAX_KEYS: usize = 200_000;

/// The first delay of a key that failed, and the longest: as client-go's
/// (`DefaultTypedControllerRateLimiter` in `util/workqueue`).
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LAST_RETRY: Duration = Duration::from_secs(1000);

/// How the work on a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well; it is looked at again when it is added again.
    Done,
    /// Well so far; it wants to be looked at again after this time.
    After(Duration),
    /// Badly; it is tried again.
    Failed,
}

/// Which of the keys that wait are looked at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Something has happened to it.
    #[default]
    Normal,
    /// It was found when everything was listed, and has probably been looked at before. However many of
    /// them there are after a start, what happens now does not wait for them.
    Low,
}

/// What a key must be able to do.
pub trait Key: Clone + Eq + Ord + Hash + Send + 'static {}

impl<K: Clone + Eq + Ord + Hash + Send + 'static> Key for K {}

/// A queue of keys. Clones are the same queue.
pub struct Queue<K: Key> {
    shared: Arc<Shared<K>>,
}

struct Shared<K: Key> {
    state: Mutex<State<K>>,
    durations: Arc<Durations>,
    /// There may be something to take, or an earlier deadline.
    ready: Notify,
    /// A key was forgotten, so that there may be room for another.
    room: Notify,
    /// Nothing waits and nothing is worked on.
    quiet: Notify,
}

impl<K: Key> Queue<K> {
    /// An empty queue, which draws its delays from `rng`.
    pub fn new(rng: Rng) -> Self {
        Self::with_limit(MAX_KEYS, rng)
    }

    /// As [`Queue::new`], for fewer keys.
    pub fn with_limit(max_keys: usize, rng: Rng) -> Self {
        let state = State::new(max_keys, FIRST_RETRY, LAST_RETRY, rng);
        let durations = Arc::clone(state.durations());
        let (ready, room, quiet) = (Notify::new(), Notify::new(), Notify::new());
        Self { shared: Arc::new(Shared { state: Mutex::new(state), durations, ready, room, quiet }) }
    }

    /// From now on delays are drawn from `rng`.
    pub fn draw_from(&self, rng: Rng) {
        self.state().rng = rng;
    }

    /// From now on what fails is tried again after this time at the latest, however often it has failed.
    pub fn retry_within(&self, longest: Duration) {
        self.state().last_retry = longest;
    }

    /// Adds a key to be looked at now. Waits while the queue is full; a closed one takes nothing and does
    /// not wait. Dropped while it waits, it has added nothing.
    pub async fn add(&self, key: K) {
        self.add_with(key, Priority::default()).await;
    }

    /// As [`Queue::add`], before or after others. Added again, the more urgent of both counts.
    pub async fn add_with(&self, key: K, priority: Priority) {
        self.put(|state| state.add(&key, priority, Instant::now())).await;
    }

    /// Adds a key to be looked at now, if there is room for it. For workers, who must not wait for room
    /// that only they can make.
    #[must_use]
    pub fn try_add(&self, key: &K) -> bool {
        let added = self.state().add(key, Priority::default(), Instant::now());
        if added == Added::Ready {
            self.shared.ready.notify_one();
        }
        added != Added::Full
    }

    /// Adds a key to be looked at after `delay`, or earlier if it is added for an earlier time. The look
    /// that comes first replaces the later ones: whoever reconciles decides anew when to come back.
    pub async fn add_after(&self, key: K, delay: Duration) {
        let now = Instant::now();
        self.put(|state| state.add_at(&key, now + delay, now)).await;
    }

    async fn put(&self, mut add: impl FnMut(&mut State<K>) -> Added) {
        loop {
            let mut room = pin!(self.shared.room.notified());
            // Before the attempt, so that what is forgotten right after it is not missed.
            room.as_mut().enable();
            let added = add(&mut self.state());
            match added {
                Added::Ready => return self.shared.ready.notify_one(),
                Added::Nothing => return,
                Added::Full => room.await,
            }
        }
    }

    /// The next key, once there is one; none after [`Queue::close`]. Safe to drop while it waits.
    pub async fn take(&self) -> Option<Taken<K>> {
        loop {
            let mut ready = pin!(self.shared.ready.notified());
            // Before the attempt, so that what is added right after it is not missed.
            ready.as_mut().enable();
            let (next, more) = {
                let mut state = self.state();
                (state.next(Instant::now()), state.has_more())
            };
            match next {
                Next::Key(key) => {
                    if more {
                        // This worker is busy from now on: another has to look after the rest, also
                        // after the deadlines this one knew of.
                        self.shared.ready.notify_one();
                    }
                    return Some(Taken { queue: self.clone(), key, outcome: Outcome::Failed });
                }
                // Both may be dropped: they only wait.
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

    /// Takes nothing more and hands out nothing more; what is being worked on may finish.
    pub fn close(&self) {
        self.state().close();
        self.shared.ready.notify_waiters();
        self.shared.room.notify_waiters();
        self.shared.quiet.notify_waiters();
    }

    /// Waits until nothing waits and nothing is worked on. Keys that come back later are not waited for.
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

    /// How much there is.
    pub fn depth(&self) -> Depth {
        self.state().depth()
    }

    /// What it has done, and for how long what it has is there.
    pub fn counts(&self) -> Counts {
        self.state().counts(Instant::now())
    }

    /// How long keys have waited before they were handed out.
    pub fn waited(&self) -> &Histogram {
        &self.shared.durations.waited
    }

    /// How long keys were worked on.
    pub fn worked(&self) -> &Histogram {
        &self.shared.durations.worked
    }

    /// How many keys have been handed out since the beginning.
    pub fn taken(&self) -> u64 {
        self.state().taken()
    }

    fn finish(&self, key: &K, outcome: Outcome) {
        let (again, forgotten, quiet) = {
            let mut state = self.state();
            let finished = state.finish(key, outcome, Instant::now());
            (finished.wakes, finished.forgotten, state.is_quiet())
        };
        if again {
            self.shared.ready.notify_one();
        }
        if forgotten {
            self.shared.room.notify_waiters();
        }
        if quiet {
            self.shared.quiet.notify_waiters();
        }
    }

    /// The state is whole between any two of its methods, so a panic elsewhere does not spoil it.
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

/// A key that is being worked on, by nobody else. Dropped without [`Taken::finish`], as by a panic, it
/// counts as failed.
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

    /// Gives it back.
    pub fn finish(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl<K: Key> Drop for Taken<K> {
    fn drop(&mut self) {
        self.queue.finish(&self.key, self.outcome);
    }
}
