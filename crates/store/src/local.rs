//! State shared by the in-process engines: published snapshots, history, live watches.
//!
//! A single writer changes its own working copy of the index and then publishes it. Readers use the published one and
//! never block the writer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use bytes::Bytes;
use coracle_base::{Clock, Task, Timestamp, watched};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::compact::CompactionPolicy;
use crate::engine::{BoxFuture, Stats};
use crate::entry::{Entry, Version};
use crate::error::{Error, Result};
use crate::expire::Expiry;
use crate::health::WriteHealth;
use crate::history::History;
use crate::hub::{Hub, Subscription};
use crate::index::{Commit, Event, Index};
use crate::read::{At, Count, Get, Range, RangeRequest};
use crate::revision::Revision;
use crate::watch::{Pattern, ProgressHandle, Watch, WatchEvent, WatchRequest, WatchSource};

/// Commits that a watcher reads from history at once, so that a lagging watcher neither holds the lock for long nor
/// keeps many commits alive.
const CATCH_UP_CHUNK: usize = 256;

/// The tasks to wake after commits that readers see already.
#[must_use = "watchers are not woken without it"]
pub(crate) struct PendingWakeups<'a> {
    local: &'a Local,
    is_for_watchers: bool,
    is_for_keeper: bool,
}

impl PendingWakeups<'_> {
    /// Wakes the tasks.
    pub(crate) fn wake(self) {
        if self.is_for_watchers {
            self.local.hub.notify();
        }
        if self.is_for_keeper {
            self.local.upkeep.notify_one();
        }
    }
}

/// State shared by readers, watchers, the writer and the keeper of one store.
pub(crate) struct Local {
    published: ArcSwap<Index>,
    pub(crate) history: History,
    pub(crate) hub: Hub,
    pub(crate) expiry: Expiry,
    pub(crate) health: WriteHealth,
    pub(crate) clock: Clock,
    pub(crate) policy: CompactionPolicy,
    /// Notified when the keeper's next work may be due earlier.
    pub(crate) upkeep: Notify,
    pub(crate) closed: CancellationToken,
    /// Mirrors `closed`: checking the token would take a lock on every read.
    is_closed: AtomicBool,
    /// Number of watches, live or reading history.
    watchers: AtomicU64,
}

impl Local {
    /// Serves `index` and the history that led to it.
    pub(crate) fn new(index: Index, history: History, clock: Clock, policy: CompactionPolicy) -> Self {
        let local = Self {
            history,
            hub: Hub::starting_at(index.revision()),
            expiry: Expiry::default(),
            health: WriteHealth::default(),
            published: ArcSwap::from_pointee(index),
            clock,
            policy,
            upkeep: Notify::new(),
            closed: CancellationToken::new(),
            is_closed: AtomicBool::new(false),
            watchers: AtomicU64::new(0),
        };
        local.expiry.restore(&local.snapshot());
        local
    }

    pub(crate) fn snapshot(&self) -> Arc<Index> {
        self.published.load_full()
    }

    /// Makes commits visible, first to readers, then to watchers, so that an observed change can also be read.
    pub(crate) fn publish(&self, index: Index, commits: &[Arc<Commit>]) {
        self.publish_to_readers(index, commits).wake();
    }

    /// Makes commits visible to readers. Watchers are woken when the caller wakes them.
    pub(crate) fn publish_to_readers(&self, index: Index, commits: &[Arc<Commit>]) -> PendingWakeups<'_> {
        self.published.store(Arc::new(index));
        if commits.is_empty() {
            return PendingWakeups { local: self, is_for_watchers: false, is_for_keeper: false };
        }
        let before = self.history.push(commits);
        let expiry_moved = self.expiry.note(commits);
        let history = self.history.summary();
        let due_earlier = self.policy.is_due_earlier_after(before, history.bytes);
        // With at most one earlier commit the keeper had nothing to wait for.
        let has_first_commits = history.commits <= commits.len() as u64 + 1;
        let is_for_keeper = expiry_moved || due_earlier || has_first_commits;
        PendingWakeups { local: self, is_for_watchers: true, is_for_keeper }
    }

    /// Replaces the index by one without continuous history. Watches that have not passed its revision get an error
    /// that history has been compacted.
    #[cfg(feature = "etcd")]
    pub(crate) fn restart(&self, index: Index) {
        // First, so that no read finds the old history and looks up the new index for it.
        self.history.restart(index.revision().next());
        self.published.store(Arc::new(index));
        self.hub.notify();
    }

    /// When the policy requires compaction, if it does.
    pub(crate) fn compaction_due(&self) -> Option<Timestamp> {
        let summary = self.history.summary();
        // One commit is always kept, so a single one needs no compaction.
        let since = summary.since.filter(|_| summary.commits > 1)?;
        Some(self.policy.due(since, summary.bytes))
    }

    /// The revision to compact to now, if the policy requires it.
    pub(crate) fn compaction_target(&self) -> Option<Revision> {
        let summary = self.history.summary();
        let now = self.clock.now();
        if summary.since.is_none_or(|since| self.policy.due(since, summary.bytes) > now) {
            return None;
        }
        self.history.target(&self.policy, now)
    }

    /// Rejects all further operations, and wakes waiting ones with an error.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.closed.cancel();
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    pub(crate) fn get(&self, key: &[u8], at: At) -> Result<Get> {
        self.check_open()?;
        let index = self.published.load();
        match at.past() {
            None => {
                at.check(index.revision()).map(|()| Get { entry: index.get(key), revision: index.revision() })
            }
            Some(revision) => {
                self.at(&index, revision, |index| Get { entry: index.get_at(key, revision), revision })
            }
        }
    }

    pub(crate) fn range(&self, request: &RangeRequest) -> Result<Range> {
        self.check_open()?;
        let index = self.snapshot();
        match request.at.past() {
            None => request.at.check(index.revision()).map(|()| index.range(request, index.revision())),
            Some(revision) => self.at(&index, revision, |index| index.range(request, revision)),
        }
    }

    pub(crate) fn count(&self, prefix: &[u8], at: At) -> Result<Count> {
        self.check_open()?;
        let index = self.snapshot();
        let count = |index: &Index, revision| Count { count: index.count(prefix, revision), revision };
        match at.past() {
            None => at.check(index.revision()).map(|()| count(&index, index.revision())),
            Some(revision) => self.at(&index, revision, |index| count(index, revision)),
        }
    }

    /// Reads a past revision. A concurrent compaction may remove data that it needs, so the revision is checked again
    /// afterwards.
    fn at<T>(&self, index: &Index, requested: Revision, read: impl FnOnce(&Index) -> T) -> Result<T> {
        if requested > index.revision() {
            return Err(Error::FutureRevision { requested, current: index.revision() });
        }
        self.history.check(requested)?;
        let result = read(index);
        self.history.check(requested)?;
        Ok(result)
    }

    /// Returns an error if `oldest` cannot be compacted to.
    pub(crate) fn check_compactable(&self, oldest: Revision) -> Result<()> {
        self.check_open()?;
        let current = self.published.load().revision();
        if oldest > current {
            return Err(Error::FutureRevision { requested: oldest, current });
        }
        Ok(())
    }

    /// Discards history before `oldest`; see [`History::forget`]. On a separate thread, because freeing a long
    /// history takes a while.
    pub(crate) async fn forget(self: &Arc<Self>, oldest: Revision) -> Result<Vec<Arc<Version>>> {
        let local = self.clone();
        let work = Task::spawn_blocking("store-compact", move || local.history.forget(oldest));
        work.await.map_err(|error| Error::Internal(error.to_string()))
    }

    pub(crate) fn stats(&self, engine: &'static str) -> Stats {
        let index = self.published.load();
        let history = self.history.summary();
        Stats {
            engine,
            revision: index.revision(),
            oldest: history.oldest,
            keys: index.live_keys(),
            bytes: index.live_bytes(),
            history: history.commits,
            history_bytes: history.bytes,
            watchers: self.watchers.load(Ordering::Relaxed),
            disk_bytes: 0,
        }
    }

    pub(crate) fn watch(self: &Arc<Self>, request: WatchRequest) -> Result<Watch> {
        self.check_open()?;
        let position = match request.from {
            Some(from) => from,
            None => self.published.load().revision().next(),
        };
        self.history.check(position)?;
        let (progress, requests) = ProgressHandle::new();
        self.watchers.fetch_add(1, Ordering::Relaxed);
        let pattern = Pattern::of(&request);
        let source = LocalWatch {
            dispatched: self.hub.dispatched(),
            local: self.clone(),
            position,
            current: None,
            backlog: VecDeque::new(),
            // Immediately if no history has to be read first: a watch of keys that do not change then survives
            // compaction, whether it is polled or not.
            live: self.hub.subscribe(&pattern, position),
            pattern,
            requests,
            requested_progress: None,
        };
        Ok(Watch::new(Box::new(source), progress))
    }
}

/// A watch on an in-process store: reads history until it has caught up, then receives live commits.
struct LocalWatch {
    local: Arc<Local>,
    pattern: Pattern,
    /// The first revision that is not fully delivered.
    position: Revision,
    /// The commit being delivered, and the number of its events that have been processed.
    current: Option<(Arc<Commit>, usize)>,
    backlog: VecDeque<Arc<Commit>>,
    live: Option<Subscription>,
    dispatched: watched::Receiver<Revision>,
    requests: watch::Receiver<u64>,
    /// Revision of the store when progress was requested.
    requested_progress: Option<Revision>,
}

impl WatchSource for LocalWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<WatchEvent>> {
        Box::pin(self.next_event())
    }

    fn try_next(&mut self) -> Option<Result<WatchEvent>> {
        self.ready_event().transpose()
    }
}

impl LocalWatch {
    /// All state is in `self` and changes only between awaits, so the future is safe to drop.
    async fn next_event(&mut self) -> Result<WatchEvent> {
        loop {
            if let Some(event) = self.ready_event()? {
                return Ok(event);
            }
            if let Some(event) = self.progress() {
                return Ok(event);
            }
            self.wait().await;
        }
    }

    /// The next event that is available without waiting.
    fn ready_event(&mut self) -> Result<Option<WatchEvent>> {
        loop {
            self.local.check_open()?;
            if let Some(event) = self.next_in_current() {
                return Ok(Some(event));
            }
            match self.next_ready()? {
                Some(commit) => self.begin(commit),
                None => return Ok(None),
            }
        }
    }

    fn begin(&mut self, commit: Arc<Commit>) {
        if commit.revision >= self.position {
            self.current = Some((commit, 0));
        }
    }

    fn next_in_current(&mut self) -> Option<WatchEvent> {
        let (commit, seen) = self.current.as_mut()?;
        while let Some(event) = commit.events.get(*seen) {
            *seen += 1;
            if self.pattern.matches(event.version.key()) {
                return Some(watch_event(event));
            }
        }
        self.position = commit.revision.next();
        self.current = None;
        None
    }

    /// The next commit that is available without waiting.
    fn next_ready(&mut self) -> Result<Option<Arc<Commit>>> {
        loop {
            if let Some(commit) = self.backlog.pop_front() {
                return Ok(Some(commit));
            }
            match &mut self.live {
                Some(live) => match live.queue.try_recv() {
                    Ok(commit) => return Ok(Some(commit)),
                    Err(tokio::sync::mpsc::error::TryRecvError::Empty) => return Ok(None),
                    Err(tokio::sync::mpsc::error::TryRecvError::Disconnected) => self.fall_behind(),
                },
                None => self.catch_up()?,
            }
        }
    }

    /// The queue overflowed and has been drained: continue from history.
    fn fall_behind(&mut self) {
        if let Some(resume) = self.live.take().and_then(|live| live.resume_from()) {
            self.position = self.position.max(resume);
        }
    }

    fn catch_up(&mut self) -> Result<()> {
        self.backlog.extend(self.local.history.read(self.position, CATCH_UP_CHUNK)?);
        if self.backlog.is_empty() {
            self.live = self.local.hub.subscribe(&self.pattern, self.position);
        }
        Ok(())
    }

    /// Returns progress once everything that it covers has been delivered. Called only when no event is available.
    fn progress(&mut self) -> Option<WatchEvent> {
        if self.requests.has_changed().unwrap_or(false) {
            self.requests.mark_unchanged();
            self.requested_progress = Some(self.local.published.load().revision());
        }
        let requested = self.requested_progress?;
        let dispatched = *self.dispatched.borrow_and_update();
        let drained =
            self.live.as_ref().is_some_and(|live| live.queue.is_empty() && live.resume_from().is_none());
        if dispatched < requested || !drained {
            return None;
        }
        self.requested_progress = None;
        self.position = self.position.max(dispatched.next());
        Some(WatchEvent::Progress { revision: dispatched })
    }

    async fn wait(&mut self) {
        let Some(live) = &mut self.live else { return };
        // All branches are safe to drop: each only wakes the loop, and a received commit is stored in `self`
        // immediately.
        tokio::select! {
            biased;
            commit = live.queue.recv() => self.backlog.extend(commit),
            Ok(()) = self.requests.changed() => self.requests.mark_changed(),
            Ok(()) = self.dispatched.changed(), if self.requested_progress.is_some() => {}
            () = self.local.closed.cancelled() => {}
        }
    }
}

impl Drop for LocalWatch {
    fn drop(&mut self) {
        self.local.watchers.fetch_sub(1, Ordering::Relaxed);
        if let Some(live) = &self.live {
            self.local.hub.unsubscribe(live);
        }
    }
}

fn watch_event(event: &Event) -> WatchEvent {
    let previous = event.previous.clone().map(Entry::new);
    if event.version.is_live() {
        return WatchEvent::Put { entry: Entry::new(event.version.clone()), previous };
    }
    let key = Bytes::copy_from_slice(event.version.key());
    WatchEvent::Delete { key, revision: event.version.mod_revision(), previous }
}
