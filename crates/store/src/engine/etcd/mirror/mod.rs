//! A mirror of everything below the root of etcd, kept up to date by one watch.
//!
//! A read is served from it once it is proven to include what the read requires: for [`At::Latest`] the revision of
//! etcd, read after the request arrived (one such read serves many requests); for [`At::Cached`] everything that this
//! engine has returned before. Watches are served from its history. While the mirror is missing or lags (a member
//! hangs, another program writes to the same etcd), reads and new watches go to etcd, so the mirror never affects the
//! correctness or availability of a response, only its cost. See `docs/adr/0014-mirror-of-etcd.md`.

mod apply;
mod history;
mod load;
mod progress;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_base::{Clock, Task, watched};
use tokio::sync::watch;
use tokio::time::timeout;

use super::cluster::Cluster;
use super::revision_reads::RevisionReads;
use crate::CompactionPolicy;
use crate::error::{Error, Result};
use crate::history::History;
use crate::index::Index;
use crate::local::Local;
use crate::read::At;
use crate::revision::Revision;
use crate::watch::{ProgressHandle, Watch, WatchRequest};

/// Time that a reader waits for an event, which is usually in flight, before it requests progress from etcd. A
/// revision of another root has no event.
const ASK_AFTER: Duration = Duration::from_millis(5);

/// Maximum time that a read waits for the mirror before it goes to etcd: longer than an event takes on a busy
/// machine, short for a client.
const GIVE_UP_AFTER: Duration = Duration::from_millis(25);

/// The revision of an empty mirror.
const NOTHING: Revision = Revision::new(0);

/// Value of `bypassed_until` at which reads always go to etcd.
const ALWAYS: u64 = u64::MAX;

/// The mirror and its revision.
pub(super) struct Mirror {
    cluster: Arc<Cluster>,
    local: Arc<Local>,
    /// Locked for one response or one compaction at a time, never across an await.
    working: Mutex<Index>,
    /// The mirror includes everything up to this revision; [`NOTHING`] while it is missing.
    reached: watched::Sender<Revision>,
    /// Reads do not wait for the mirror until it has reached this revision, because one read has timed out.
    bypassed_until: AtomicU64,
    revisions: RevisionReads,
    /// Requests progress of the mirror's watch.
    progress: ProgressHandle,
    requests: watch::Receiver<u64>,
}

impl Mirror {
    fn new(cluster: Arc<Cluster>, policy: CompactionPolicy, clock: Clock) -> Self {
        let index = Index::empty(NOTHING);
        let history = History::starting_at(NOTHING.next());
        let (progress, requests) = ProgressHandle::new();
        Self {
            cluster,
            local: Arc::new(Local::new(index.clone(), history, clock, policy)),
            working: Mutex::new(index),
            reached: watched::Sender::new(NOTHING),
            bypassed_until: AtomicU64::new(ALWAYS),
            revisions: RevisionReads::default(),
            progress,
            requests,
        }
    }

    /// Starts to follow a cluster; returns once the mirror is complete, or the first attempt to load it has failed.
    pub(super) async fn start(
        cluster: Arc<Cluster>,
        policy: CompactionPolicy,
        clock: Clock,
    ) -> (Arc<Self>, Vec<Task<()>>) {
        let mirror = Arc::new(Self::new(cluster, policy, clock));
        let first = mirror.begin().await;
        let hub = mirror.clone();
        let hub = async move { hub.local.hub.dispatch(&hub.local.history, &hub.local.closed).await };
        let tasks = vec![
            Task::spawn("etcd-mirror", mirror.clone().run(first)),
            Task::spawn("etcd-mirror-hub", hub),
            Task::spawn("etcd-mirror-history", mirror.clone().keep_history()),
        ];
        (mirror, tasks)
    }

    pub(super) fn local(&self) -> &Local {
        &self.local
    }

    /// The latest revision of etcd at some time after this call.
    pub(super) async fn latest(&self) -> Result<Revision> {
        self.revisions.latest(&self.cluster).await
    }

    /// Reads the mirror at a state as recent as `at` requires; `None` if that cannot be proven.
    pub(super) async fn read<T>(
        &self,
        at: At,
        read: impl FnOnce(&Local, At) -> Result<T>,
    ) -> Result<Option<T>> {
        self.local.check_open()?;
        if !self.covers(at).await? {
            return Ok(None);
        }
        match read(&self.local, at) {
            Err(Error::Compacted { .. } | Error::FutureRevision { .. }) => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    async fn covers(&self, at: At) -> Result<bool> {
        if self.reached() == NOTHING {
            return Ok(false);
        }
        let wanted = match at {
            At::Revision(revision) => return Ok(revision <= self.reached()),
            At::Cached => self.cluster.seen(),
            At::NotOlderThan(revision) if revision.max(self.cluster.seen()) <= self.reached() => {
                return Ok(true);
            }
            At::Latest | At::NotOlderThan(_) if self.is_bypassed() => return Ok(false),
            At::Latest | At::NotOlderThan(_) => self.latest().await?,
        };
        Ok(self.wait(wanted).await)
    }

    /// A watch of the mirror's history from `from` on; `None` if that is before the history, or the mirror is
    /// missing.
    pub(super) fn watch(self: &Arc<Self>, request: WatchRequest, from: Revision) -> Result<Option<Watch>> {
        if self.reached() == NOTHING {
            return Ok(None);
        }
        match self.local.watch(request.from(from)) {
            Ok(watch) => Ok(Some(progress::watch(self.clone(), watch))),
            Err(Error::Compacted { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn reached(&self) -> Revision {
        *self.reached.borrow()
    }

    fn is_bypassed(&self) -> bool {
        self.bypassed_until.load(Ordering::Relaxed) > self.reached().get()
    }

    /// Waits a short time until the mirror has reached a revision. If it returns false, etcd must be read.
    async fn wait(&self, wanted: Revision) -> bool {
        if wanted <= self.reached() {
            return true;
        }
        if self.is_bypassed() {
            return false;
        }
        if timeout(GIVE_UP_AFTER, self.reach(wanted)).await.is_ok() {
            return true;
        }
        self.bypassed_until.fetch_max(wanted.get(), Ordering::Relaxed);
        false
    }

    /// Waits until the mirror has reached a revision, without a limit. Safe to drop.
    async fn reach(&self, wanted: Revision) {
        let mut reached = self.reached.subscribe();
        let is_there = |reached: &Revision| wanted <= *reached;
        if timeout(ASK_AFTER, reached.wait_for(is_there)).await.is_ok() {
            return;
        }
        self.progress.request();
        // The sender is in `self`, so it is not closed.
        let _ = reached.wait_for(is_there).await;
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        // The index is cloned and replaced in single steps, so a poisoned lock guards valid data.
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all watches and rejects reads.
    pub(super) fn close(&self) {
        self.local.close();
    }
}
