//! Who is told of which commit.
//!
//! Live watchers are indexed by prefix, and those of all scopes by what follows the scope, so a write
//! costs only those who watch it. Each has a
//! short bounded queue of shared commits; whoever lets it fill up is taken off the list and
//! reads on from history at its own pace. The writer never waits for any of this: it leaves
//! commits in the history and rings; one task reads them there and hands them out.

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

/// Commits a watcher may be behind before it has to read them from history instead. Covers
/// one group commit of the busiest writer; 64 pointers each, so thousands cost little.
const QUEUE_COMMITS: usize = 64;

/// Commits handed out before others get a turn at the lock.
const DISPATCH_CHUNK: usize = 256;

pub(crate) struct Hub {
    registry: Mutex<Registry>,
    /// Up to where commits have been handed out.
    dispatched: watched::Sender<Revision>,
    bell: Notify,
}

#[derive(Default)]
struct Registry {
    watchers: Watchers,
    /// Those who watch any scope after a prefix, by that prefix. There are one or two.
    of_scopes: BTreeMap<Box<[u8]>, Watchers>,
    next_id: u64,
}

#[derive(Default)]
struct Watchers {
    by_prefix: HashMap<Box<[u8]>, Vec<Watcher>>,
    /// The lengths of all prefixes watched, with how many distinct prefixes have each: a key
    /// is looked up once per length.
    lengths: BTreeMap<usize, usize>,
}

struct Watcher {
    id: u64,
    from: Revision,
    queue: mpsc::Sender<Arc<Commit>>,
    resume: Arc<AtomicU64>,
}

/// A live watcher's end of its queue.
pub(crate) struct Subscription {
    pattern: Pattern,
    id: u64,
    pub(crate) queue: mpsc::Receiver<Arc<Commit>>,
    /// Where to read on in history once the queue has ended; 0 while it has not.
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
        Self { registry: Mutex::default(), dispatched: watched::Sender::new(revision), bell: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        // The registry's updates are single steps; it is whole even if one panicked.
        self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Tells the dispatcher that there are new commits in the history.
    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    pub(crate) fn dispatched(&self) -> watched::Receiver<Revision> {
        self.dispatched.subscribe()
    }

    /// Joins the live watchers, unless commits from `from` on have been handed out already:
    /// those must be read from history first.
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

    /// Hands out commits as they come, until the store is closed.
    pub(crate) async fn dispatch(&self, history: &History, closed: &CancellationToken) {
        loop {
            // Both branches only wait.
            tokio::select! {
                biased;
                () = self.bell.notified() => {}
                () = closed.cancelled() => return,
            }
            while self.dispatch_chunk(history) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Hands out one portion; false when there was nothing left.
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
        // Moved under the lock: `subscribe` must not see the old value after the delivery.
        self.dispatched.send_replace(last.revision);
        true
    }

    /// Compaction has passed the dispatcher: everyone reads on from history, and learns
    /// there that it is gone.
    fn skip_to(&self, oldest: Revision, next: Revision) -> bool {
        let mut registry = self.lock();
        registry.send_away(next);
        self.dispatched.send_replace(Revision::new(oldest.get() - 1));
        true
    }
}

impl Registry {
    fn add(&mut self, pattern: &Pattern, watcher: Watcher) {
        match &pattern.beyond {
            None => self.watchers.add(&pattern.prefix, watcher),
            Some(beyond) => self.of_scopes.entry(pattern.prefix.clone()).or_default().add(beyond, watcher),
        }
    }

    fn remove(&mut self, pattern: &Pattern, id: u64) {
        let Some(beyond) = &pattern.beyond else { return self.watchers.remove(&pattern.prefix, id) };
        let Some(watchers) = self.of_scopes.get_mut(&pattern.prefix) else { return };
        watchers.remove(beyond, id);
        if watchers.by_prefix.is_empty() {
            self.of_scopes.remove(&pattern.prefix);
        }
    }

    fn deliver(&mut self, commit: &Arc<Commit>) {
        self.watchers.deliver(commit, |key| Some(key));
        for (prefix, watchers) in &mut self.of_scopes {
            watchers.deliver(commit, |key| beyond_segment(key, prefix));
        }
        self.of_scopes.retain(|_, watchers| !watchers.by_prefix.is_empty());
    }

    fn send_away(&mut self, resume: Revision) {
        for watchers in self.of_scopes.values().chain([&self.watchers]) {
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

    /// `part` is what watchers see of a key; none if it is nothing to them.
    fn deliver(&mut self, commit: &Arc<Commit>, part: impl Fn(&[u8]) -> Option<&[u8]>) {
        if self.by_prefix.is_empty() {
            return;
        }
        // A commit goes once to each watcher, however many of its keys it watches.
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
    /// False if the watcher is to be taken off the list.
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
