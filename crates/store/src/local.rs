//! What the engines in this process share: published snapshots, history, live watches.
//!
//! One writer, whoever it is, changes its own working copy of the index and then publishes
//! it. Readers take the published one and are never in its way.

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

/// Commits a watcher takes from history in one go, so that one that is far behind neither
/// holds the lock for long nor keeps much.
const CATCH_UP_CHUNK: usize = 256;

/// Tasks that are to be woken because of commits that readers see already.
#[must_use = "watchers wait for it"]
pub(crate) struct News<'a> {
    local: &'a Local,
    is_for_watchers: bool,
    is_for_keeper: bool,
}

impl News<'_> {
    /// Wakes them.
    pub(crate) fn announce(self) {
        if self.is_for_watchers {
            self.local.hub.ring();
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
    /// Rung when the keeper may have something to do earlier than it thinks.
    pub(crate) upkeep: Notify,
    pub(crate) closed: CancellationToken,
    /// Whether it is: the token would have to be locked by every reader to tell.
    is_closed: AtomicBool,
    /// Watches that exist, whether they listen or still read history.
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

    /// Makes commits visible: first to readers, then to watchers, so that whoever hears of a
    /// change can also read it.
    pub(crate) fn publish(&self, index: Index, commits: &[Arc<Commit>]) {
        self.publish_to_readers(index, commits).announce();
    }

    /// Makes commits visible to readers; watchers hear of them when the result is announced.
    pub(crate) fn publish_to_readers(&self, index: Index, commits: &[Arc<Commit>]) -> News<'_> {
        self.published.store(Arc::new(index));
        if commits.is_empty() {
            return News { local: self, is_for_watchers: false, is_for_keeper: false };
        }
        let before = self.history.push(commits);
        let expiry_moved = self.expiry.note(commits);
        let history = self.history.summary();
        let crowded = self.policy.is_hurried_by(before, history.bytes);
        // With no more than one commit before these the keeper had nothing to wait for.
        let begins_to_age = history.commits <= commits.len() as u64 + 1;
        let is_for_keeper = expiry_moved || crowded || begins_to_age;
        News { local: self, is_for_watchers: true, is_for_keeper }
    }

    /// Serves another index, which nothing led to that watchers could be told: those who are not past its revision
    /// learn that history has been compacted.
    #[cfg(feature = "etcd")]
    pub(crate) fn restart(&self, index: Index) {
        // First: no read may find the old history and look into the new index for it.
        self.history.restart(index.revision().next());
        self.published.store(Arc::new(index));
        self.hub.ring();
    }

    /// When compaction by policy is due, if it is.
    pub(crate) fn compaction_due(&self) -> Option<Timestamp> {
        let summary = self.history.summary();
        // One commit always stays, so a single one is nothing to wait for.
        let since = summary.since.filter(|_| summary.commits > 1)?;
        Some(self.policy.due(since, summary.bytes))
    }

    /// The revision to compact to now, if the policy says so.
    pub(crate) fn compaction_target(&self) -> Option<Revision> {
        let summary = self.history.summary();
        let now = self.clock.now();
        if summary.since.is_none_or(|since| self.policy.due(since, summary.bytes) > now) {
            return None;
        }
        self.history.target(&self.policy, now)
    }

    /// From now on everything is refused, and whoever waits learns it.
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

    /// Reads the past. Compaction may pass while the read goes on and take away what it
    /// needs, so the revision is checked again when it is done.
    fn at<T>(&self, index: &Index, requested: Revision, read: impl FnOnce(&Index) -> T) -> Result<T> {
        if requested > index.revision() {
            return Err(Error::FutureRevision { requested, current: index.revision() });
        }
        self.history.check(requested)?;
        let result = read(index);
        self.history.check(requested)?;
        Ok(result)
    }

    /// Refuses what cannot be compacted to.
    pub(crate) fn check_compactable(&self, oldest: Revision) -> Result<()> {
        self.check_open()?;
        let current = self.published.load().revision();
        if oldest > current {
            return Err(Error::FutureRevision { requested: oldest, current });
        }
        Ok(())
    }

    /// Gives up history before `oldest`; see [`History::forget`]. On a thread of its own:
    /// freeing a long history takes a while.
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
            // At once if nothing has to be read from history first: a watch of keys that do not change then survives
            // compaction, whether it is read or not.
            live: self.hub.subscribe(&pattern, position),
            pattern,
            requests,
            owed: None,
        };
        Ok(Watch::new(Box::new(source), progress))
    }
}

/// A watch on a store in this process: reads history until it has caught up, then listens.
struct LocalWatch {
    local: Arc<Local>,
    pattern: Pattern,
    /// The first revision not delivered in full.
    position: Revision,
    /// The commit being delivered, and how many of its events have been looked at.
    current: Option<(Arc<Commit>, usize)>,
    backlog: VecDeque<Arc<Commit>>,
    live: Option<Subscription>,
    dispatched: watched::Receiver<Revision>,
    requests: watch::Receiver<u64>,
    /// Progress was asked for when the store stood at this revision.
    owed: Option<Revision>,
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
    /// All state is in `self` and changes only between awaits, so dropping this is safe.
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

    /// The next change that is there without waiting.
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

    /// The next commit that is there without waiting.
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

    /// The queue was full and has been read: go on from history where it ended.
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

    /// Answers a request for progress once everything it covers has been delivered. Called
    /// only when nothing is ready.
    fn progress(&mut self) -> Option<WatchEvent> {
        if self.requests.has_changed().unwrap_or(false) {
            self.requests.mark_unchanged();
            self.owed = Some(self.local.published.load().revision());
        }
        let owed = self.owed?;
        let dispatched = *self.dispatched.borrow_and_update();
        let drained =
            self.live.as_ref().is_some_and(|live| live.queue.is_empty() && live.resume_from().is_none());
        if dispatched < owed || !drained {
            return None;
        }
        self.owed = None;
        self.position = self.position.max(dispatched.next());
        Some(WatchEvent::Progress { revision: dispatched })
    }

    async fn wait(&mut self) {
        let Some(live) = &mut self.live else { return };
        // Each branch only wakes the loop; what is received is put into `self` at once.
        tokio::select! {
            biased;
            commit = live.queue.recv() => self.backlog.extend(commit),
            Ok(()) = self.requests.changed() => self.requests.mark_changed(),
            Ok(()) = self.dispatched.changed(), if self.owed.is_some() => {}
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
