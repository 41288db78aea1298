//! The engine for an etcd cluster (v3 API, etcd 3.4 or later).
//!
//! Etcd already has the store's semantics; this engine translates requests. In addition it has: a header in each
//! value for metadata that etcd cannot store (`value`), paginated ranges (`read`), leases shared by many keys
//! (`lease`), watches that survive the loss of a member (`follow`), and compaction by age (`compact`). Several
//! processes may use one cluster concurrently.
//!
//! Reads and watches are served from an in-memory mirror that follows etcd (`mirror`), if it is proven to give the
//! same results.

use std::sync::{Arc, Mutex, PoisonError};

use coracle_base::Task;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::cluster::Cluster;
use self::mirror::Mirror;
pub use self::options::{ClientIdentity, Options, Password, Tls};
use crate::engine::{BoxFuture, Engine, Stats};
use crate::error::{Error, Result};
use crate::read::{At, Count, Get, Range, RangeRequest};
use crate::revision::Revision;
use crate::store::Store;
use crate::txn::{Committed, Txn};
use crate::watch::{Watch, WatchRequest};

mod client;
mod cluster;
mod commit;
mod compact;
mod failure;
mod follow;
mod health;
mod keyspace;
mod leader;
mod lease;
mod mirror;
mod options;
mod progress;
mod proto;
mod read;
mod revision_reads;
mod rpc;
mod session;
mod stream;
mod value;
mod watch;

/// Connects to a cluster and verifies that it responds.
///
/// # Errors
/// [`crate::Error::Config`] for invalid options, [`crate::Error::Unavailable`] if no member responds,
/// [`crate::Error::Refused`] if they reject the credentials.
pub async fn connect(options: Options) -> Result<Store> {
    let closed = CancellationToken::new();
    let cluster = Arc::new(Cluster::new(&options, closed)?);
    cluster.probe().await?;
    cluster.client.prefer_leader().await;
    Ok(Store::new(Arc::new(EtcdEngine::start(cluster, &options).await)))
}

/// A connected cluster and its background tasks.
struct EtcdEngine {
    cluster: Arc<Cluster>,
    mirror: Arc<Mirror>,
    /// Tasks of the mirror, compaction by age, leader lookup and the retest of an unreachable cluster; they run until
    /// the engine is closed.
    tasks: Mutex<Vec<Task<()>>>,
    /// Tracks the task of every running watch; each task belongs to its [`Watch`].
    watches: TaskTracker,
}

impl EtcdEngine {
    async fn start(cluster: Arc<Cluster>, options: &Options) -> Self {
        let policy = options.mirror_history();
        let (mirror, mut tasks) = Mirror::start(cluster.clone(), policy, options.clock.clone()).await;
        tasks.push(health::start(cluster.clone()));
        tasks.push(leader::start(cluster.clone()));
        tasks.extend(compact::start(cluster.clone(), options));
        Self { cluster, mirror, tasks: Mutex::new(tasks), watches: TaskTracker::new() }
    }

    async fn get(&self, key: &[u8], at: At) -> Result<Get> {
        if let Some(get) = self.mirror.read(at, |copy, at| copy.get(key, at)).await? {
            return Ok(get);
        }
        let get = self.cluster.get(key, at).await?;
        self.checked(at, get.revision).map(|()| get)
    }

    async fn range(&self, mut request: RangeRequest) -> Result<Range> {
        let at = request.at;
        let copied = self.mirror.read(at, |copy, at| {
            request.at = at;
            copy.range(&request)
        });
        if let Some(range) = copied.await? {
            return Ok(range);
        }
        let range = self.cluster.range(RangeRequest { at, ..request }).await?;
        self.checked(at, range.revision).map(|()| range)
    }

    async fn count(&self, prefix: &[u8], at: At) -> Result<Count> {
        if let Some(count) = self.mirror.read(at, |copy, at| copy.count(prefix, at)).await? {
            return Ok(count);
        }
        let count = self.cluster.count(prefix, at).await?;
        self.checked(at, count.revision).map(|()| count)
    }

    /// Records the revision of a current state that etcd has returned.
    fn checked(&self, at: At, found: Revision) -> Result<()> {
        if at.past().is_none() {
            self.cluster.saw(found);
        }
        at.check(found)
    }

    async fn watch(&self, mut request: WatchRequest) -> Result<Watch> {
        let from = match request.from {
            // The mirror's revision may be older than acknowledged writes.
            None => self.mirror.latest().await?.next(),
            Some(from) => from,
        };
        request.from = Some(from);
        match self.mirror.watch(request.clone(), from)? {
            Some(watch) => Ok(watch),
            None => watch::start(self.cluster.clone(), &self.watches, request, from).await,
        }
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.cluster.compact(revision).await?;
        self.mirror.compact(revision).await
    }

    async fn stats(&self) -> Result<Stats> {
        let stats = self.cluster.stats().await?;
        let copy = self.mirror.local().stats(stats.engine);
        let watchers = stats.watchers + copy.watchers;
        Ok(Stats { history: copy.history, history_bytes: copy.history_bytes, watchers, ..stats })
    }

    async fn stop(&self) {
        self.mirror.close();
        self.cluster.client.closed().cancel();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            // The task observes the cancellation; its result does not matter.
            let _ = task.await;
        }
        self.watches.close();
        self.watches.wait().await;
    }
}

impl Engine for EtcdEngine {
    fn get<'a>(&'a self, key: &'a [u8], at: At) -> BoxFuture<'a, Result<Get>> {
        Box::pin(self.get(key, at))
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range>> {
        Box::pin(self.range(request))
    }

    fn count<'a>(&'a self, prefix: &'a [u8], at: At) -> BoxFuture<'a, Result<Count>> {
        Box::pin(self.count(prefix, at))
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed>> {
        Box::pin(self.cluster.commit(txn))
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Watch>> {
        Box::pin(self.watch(request))
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.compact(revision))
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        Box::pin(self.stats())
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.stop().await;
            self.cluster.client.health.check()
        })
    }

    fn writable(&self) -> Result<()> {
        if self.cluster.client.closed().is_cancelled() {
            return Err(Error::Closed);
        }
        self.cluster.client.health.check()
    }
}
