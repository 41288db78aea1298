//! Delivers commits to live watchers.
//!
//! Watchers are indexed by prefix, and those of all scopes by the part of the key after the scope, so a write only
//! costs time for its own watchers. Each watcher has a short bounded queue of shared commits; one whose queue is full
//! is removed and continues from history at its own pace. The writer never waits: it adds commits to the history and
//! wakes a task, which delivers them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use coracle_base::watched;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::history::History;
use crate::index::Commit;
use crate::revision::Revision;
use crate::watch::{Pattern, beyond_segment};

/// Commits by which a watcher may lag before it must read history instead. Covers one group commit of the busiest
/// writer; 64 pointers each, so thousands of watchers cost little.
const QUEUE_COMMITS: usize = 64;

/// Commits delivered before the lock is released.
const DISPATCH_CHUNK: usize = 256;

pub(crate) struct Hub {
    registry: Mutex<Registry>,
    /// The revision up to which commits have been delivered.
    dispatched: watched::Sender<Revision>,
    new_commits: Notify,
}

#[derive(Default)]
struct Registry {
    watchers: Watchers,
    /// Watchers of any scope, by the prefix of the scopes. There are one or two prefixes.
    any_scope: BTreeMap<Box<[u8]>, Watchers>,
    next_id: u64,
}

#[derive(Default)]
struct Watchers {
    by_prefix: HashMap<Box<[u8]>, Vec<Watcher>>,
    /// Lengths of all watched prefixes, with the number of distinct prefixes of each: a key is looked up once per
    /// length.
    lengths: BTreeMap<usize, usize>,
}

struct Watcher {
    id: u64,
    from: Revision,
    queue: mpsc::Sender<Arc<Commit>>,
    resume: Arc<AtomicU64>,
}

/// The receiving end of a live watcher's queue.
pub(crate) struct Subscription {
    pattern: Pattern,
    id: u64,
    pub(crate) queue: mpsc::Receiver<Arc<Commit>>,
    /// The revision at which to continue in history after the queue has ended; 0 before that.
    resume: Arc<AtomicU64>,
}

impl Subscription {
    /// The first revision that did not fit into the queue.
    pub(crate) fn resume_from(&self) -> Option<Revision> {
        let revision = self.resume.load(Ordering::Acquire);
        (revision != 0).then(|| Revision::new(revision))
    }
}

impl Hub {
    pub(crate) fn starting_at(revision: Revision) -> Self {
        Self {
            registry: Mutex::default(),
            dispatched: watched::Sender::new(revision),
            new_commits: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        // Updates of the registry are single steps, so a poisoned lock guards valid data.
        self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Wakes the dispatcher after commits were added to the history.
    pub(crate) fn notify(&self) {
        self.new_commits.notify_one();
    }

    pub(crate) fn dispatched(&self) -> watched::Receiver<Revision> {
        self.dispatched.subscribe()
    }

    /// Subscribes to live commits, unless commits from `from` on have already been delivered: these must be read from
    /// history first.
    pub(crate) fn subscribe(&self, pattern: &Pattern, from: Revision) -> Option<Subscription> {
        let mut registry = self.lock();
        if *self.dispatched.borrow() >= from {
            return None;
        }
        let (sender, queue) = mpsc::channel(QUEUE_COMMITS);
        let resume = Arc::new(AtomicU64::new(0));
        registry.next_id += 1;
        let id = registry.next_id;
        registry.add(pattern, Watcher { id, from, queue: sender, resume: resume.clone() });
        Some(Subscription { pattern: pattern.clone(), id, queue, resume })
    }

    pub(crate) fn unsubscribe(&self, subscription: &Subscription) {
        self.lock().remove(&subscription.pattern, subscription.id);
    }

    /// Delivers commits as they arrive, until the store is closed.
    pub(crate) async fn dispatch(&self, history: &History, closed: &CancellationToken) {
        loop {
            // Both branches are safe to drop: they only wait.
            tokio::select! {
                biased;
                () = self.new_commits.notified() => {}
                () = closed.cancelled() => return,
            }
            while self.dispatch_chunk(history) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Delivers one chunk; returns false if there was nothing to deliver.
    fn dispatch_chunk(&self, history: &History) -> bool {
        let next = self.dispatched.borrow().next();
        let Ok(commits) = history.read(next, DISPATCH_CHUNK) else {
            return self.skip_to(history.oldest(), next);
        };
        let Some(last) = commits.last() else { return false };
        let mut registry = self.lock();
        for commit in &commits {
            registry.deliver(commit);
        }
        // Updated under the lock, so that `subscribe` cannot read the old value after the delivery.
        self.dispatched.send_replace(last.revision);
        true
    }

    /// Handles a compaction beyond the dispatcher's position: all watchers continue from history, which returns an
    /// error.
    fn skip_to(&self, oldest: Revision, next: Revision) -> bool {
        let mut registry = self.lock();
        registry.disconnect_all(next);
        self.dispatched.send_replace(Revision::new(oldest.get() - 1));
        true
    }
}

impl Registry {
    fn add(&mut self, pattern: &Pattern, watcher: Watcher) {
        match &pattern.beyond {
            None => self.watchers.add(&pattern.prefix, watcher),
            Some(beyond) => self.any_scope.entry(pattern.prefix.clone()).or_default().add(beyond, watcher),
        }
    }

    fn remove(&mut self, pattern: &Pattern, id: u64) {
        let Some(beyond) = &pattern.beyond else { return self.watchers.remove(&pattern.prefix, id) };
        let Some(watchers) = self.any_scope.get_mut(&pattern.prefix) else { return };
        watchers.remove(beyond, id);
        if watchers.by_prefix.is_empty() {
            self.any_scope.remove(&pattern.prefix);
        }
    }

    fn deliver(&mut self, commit: &Arc<Commit>) {
        self.watchers.deliver(commit, |key| Some(key));
        for (prefix, watchers) in &mut self.any_scope {
            watchers.deliver(commit, |key| beyond_segment(key, prefix));
        }
        self.any_scope.retain(|_, watchers| !watchers.by_prefix.is_empty());
    }

    fn disconnect_all(&mut self, resume: Revision) {
        for watchers in self.any_scope.values().chain([&self.watchers]) {
            for watcher in watchers.by_prefix.values().flatten() {
                watcher.resume.store(resume.max(watcher.from).get(), Ordering::Release);
            }
        }
        *self = Registry { next_id: self.next_id, ..Registry::default() };
    }
}

impl Watchers {
    fn add(&mut self, prefix: &[u8], watcher: Watcher) {
        let watchers = self.by_prefix.entry(prefix.into()).or_default();
        if watchers.is_empty() {
            *self.lengths.entry(prefix.len()).or_default() += 1;
        }
        watchers.push(watcher);
    }

    fn remove(&mut self, prefix: &[u8], id: u64) {
        let Some(watchers) = self.by_prefix.get_mut(prefix) else { return };
        let Some(at) = watchers.iter().position(|watcher| watcher.id == id) else { return };
        watchers.swap_remove(at);
        if watchers.is_empty() {
            self.by_prefix.remove(prefix);
            self.forget_length(prefix.len());
        }
    }

    fn forget_length(&mut self, length: usize) {
        if let Some(prefixes) = self.lengths.get_mut(&length) {
            *prefixes -= 1;
            if *prefixes == 0 {
                self.lengths.remove(&length);
            }
        }
    }

    /// `part` returns the part of a key that prefixes are compared with; none if these watchers do not watch the key.
    fn deliver(&mut self, commit: &Arc<Commit>, part: impl Fn(&[u8]) -> Option<&[u8]>) {
        if self.by_prefix.is_empty() {
            return;
        }
        // A commit is sent to each watcher once, however many of its keys match.
        let mut prefixes: HashSet<&[u8]> = HashSet::new();
        let mut full: Vec<(Box<[u8]>, u64)> = Vec::new();
        for key in commit.events.iter().filter_map(|event| part(event.version.key())) {
            for &length in self.lengths.range(..=key.len()).map(|(length, _)| length) {
                let prefix = &key[..length];
                if prefixes.contains(prefix) {
                    continue;
                }
                let Some(watchers) = self.by_prefix.get(prefix) else { continue };
                prefixes.insert(prefix);
                let behind = watchers.iter().filter(|watcher| !watcher.offer(commit));
                full.extend(behind.map(|watcher| (prefix.into(), watcher.id)));
            }
        }
        for (prefix, id) in full {
            self.remove(&prefix, id);
        }
    }
}

impl Watcher {
    /// Returns false if the watcher must be removed.
    fn offer(&self, commit: &Arc<Commit>) -> bool {
        if commit.revision < self.from {
            return true;
        }
        if self.queue.try_send(commit.clone()).is_ok() {
            return true;
        }
        self.resume.store(commit.revision.get(), Ordering::Release);
        false
    }
}
