//! A copy of everything under the root of etcd, kept current by one watch.
//!
//! Reads are answered from it, once it is proven to include what the read must see: for [`At::Latest`] the revision of
//! etcd, read after the caller came (one such read serves many callers); for [`At::Cached`] whatever this engine
//! has returned before. Watches are served from its history. While there is no copy, or the copy lags (a member hangs,
//! another program writes to the same etcd), reads and new watches go to etcd itself, so the mirror never decides
//! whether an answer is right or possible, only what it costs. See `docs/adr/0014-mirror-of-etcd.md`.

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

/// The event that a reader waits for is usually on its way; after this time etcd is asked whether there is one. A
/// revision of another root has none.
const ASK_AFTER: Duration = Duration::from_millis(5);

/// A read waits no longer than this for the mirror, and then goes to etcd: longer than an event takes on a busy
/// machine, short for a client.
const GIVE_UP_AFTER: Duration = Duration::from_millis(25);

/// The revision of a mirror that has nothing.
const NOTHING: Revision = Revision::new(0);

/// Reads go to etcd until the mirror has reached this: never.
const ALWAYS: u64 = u64::MAX;

/// The copy, and how far it has come.
pub(super) struct Mirror {
    cluster: Arc<Cluster>,
    local: Arc<Local>,
    /// Held for one response or one compaction at a time, never across an await.
    working: Mutex<Index>,
    /// The copy has everything up to this revision; [`NOTHING`] while there is none.
    reached: watched::Sender<Revision>,
    /// Reads do not wait for the mirror before it has reached this revision: one has waited in vain.
    bypassed_until: AtomicU64,
    revisions: RevisionReads,
    /// Requests that the watch find out how far it has come.
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

    /// Starts to follow a cluster; returns once the copy is complete, or could not be made at the first attempt.
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

    /// Reads the copy at a state that is as recent as `at` demands; `None` if it cannot be proven to be.
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

    /// A watch of the copy's history from `from` on; `None` if that lies before it, or there is no copy.
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

    /// Waits a short time until the copy has reached a revision. False: it has not, and etcd is to be read.
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

    /// Returns when the copy has reached a revision, however long it takes. Safe to drop.
    async fn reach(&self, wanted: Revision) {
        let mut reached = self.reached.subscribe();
        let is_there = |reached: &Revision| wanted <= *reached;
        if timeout(ASK_AFTER, reached.wait_for(is_there)).await.is_ok() {
            return;
        }
        self.progress.request();
        // The sender is in `self`, so there is always one.
        let _ = reached.wait_for(is_there).await;
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        // The index is cloned and replaced in single steps; it is whole even if one panicked.
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all watches and refuses reads.
    pub(super) fn close(&self) {
        self.local.close();
    }
}
