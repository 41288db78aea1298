//! The engine over an etcd cluster (v3 API, etcd 3.4 or later).
//!
//! Etcd has the semantics of the store already; this translates. What it adds: a header on
//! each value for what etcd has no place for (`value`), ranges in pages (`read`), leases
//! shared by many keys (`lease`), watches that outlive a lost member (`watch`), and
//! compaction by age (`compact`). Several processes may use one cluster at once.

use std::sync::{Arc, Mutex, PoisonError};

use coracle_base::Task;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::cluster::Cluster;
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
mod health;
mod keyspace;
mod lease;
mod options;
mod progress;
mod proto;
mod read;
mod rpc;
mod session;
mod stream;
mod value;
mod watch;

/// Connects to a cluster and makes sure that it answers.
///
/// # Errors
/// [`crate::Error::Config`] for options that cannot work, [`crate::Error::Unavailable`] if no
/// member answers, [`crate::Error::Refused`] if they do not let us in.
pub async fn connect(options: Options) -> Result<Store> {
    let closed = CancellationToken::new();
    let cluster = Arc::new(Cluster::new(&options, closed)?);
    cluster.probe().await?;
    Ok(Store::new(Arc::new(EtcdEngine::start(cluster, &options))))
}

/// A connected cluster with what runs for it.
struct EtcdEngine {
    cluster: Arc<Cluster>,
    /// Compaction by age and the test of an unreachable cluster, until the engine is closed.
    tasks: Mutex<Vec<Task<()>>>,
    /// Every running watch. Each task belongs to its [`Watch`]; this awaits them.
    watches: TaskTracker,
}

impl EtcdEngine {
    fn start(cluster: Arc<Cluster>, options: &Options) -> Self {
        let mut tasks = vec![health::start(cluster.clone())];
        tasks.extend(compact::start(cluster.clone(), options));
        Self { cluster, tasks: Mutex::new(tasks), watches: TaskTracker::new() }
    }

    async fn stop(&self) {
        self.cluster.client.closed().cancel();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            // It sees the cancellation; that it was cancelled is no news.
            let _ = task.await;
        }
        self.watches.close();
        self.watches.wait().await;
    }
}

impl Engine for EtcdEngine {
    fn get<'a>(&'a self, key: &'a [u8], at: At) -> BoxFuture<'a, Result<Get>> {
        Box::pin(self.cluster.get(key, at))
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range>> {
        Box::pin(self.cluster.range(request))
    }

    fn count<'a>(&'a self, prefix: &'a [u8], at: At) -> BoxFuture<'a, Result<Count>> {
        Box::pin(self.cluster.count(prefix, at))
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed>> {
        Box::pin(self.cluster.commit(txn))
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Watch>> {
        Box::pin(watch::start(self.cluster.clone(), &self.watches, request))
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.cluster.compact(revision))
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        Box::pin(self.cluster.stats())
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
