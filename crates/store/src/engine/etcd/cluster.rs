//! State shared by all requests of one engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coracle_base::Clock;
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::failure::Failure;
use super::keyspace::Keyspace;
use super::lease::Leases;
use super::options::Options;
use super::proto::{self, NO_END, RangeRequest};
use crate::engine::Stats;
use crate::error::Result;
use crate::read::At;
use crate::revision::Revision;

/// A cluster, and the store's root in its keyspace.
pub(super) struct Cluster {
    pub(super) client: Client,
    pub(super) keyspace: Keyspace,
    pub(super) leases: Leases,
    pub(super) clock: Clock,
    /// Age at which this engine's own compaction discards history.
    pub(super) history_age: Duration,
    /// Cloned by every watch, which counts them: a dropped watch is counted out immediately, unlike its task.
    pub(super) watchers: Arc<()>,
    /// The oldest kept revision, as far as this engine knows: etcd does not report it.
    oldest: AtomicU64,
    /// The newest revision that a caller of this engine has observed.
    seen: AtomicU64,
}

impl Cluster {
    pub(super) fn new(options: &Options, closed: CancellationToken) -> Result<Self> {
        options.check()?;
        Ok(Self {
            client: Client::new(options, closed)?,
            keyspace: Keyspace::new(&options.root),
            leases: Leases::default(),
            clock: options.clock.clone(),
            history_age: options.compaction.max_age,
            watchers: Arc::new(()),
            oldest: AtomicU64::new(Revision::INITIAL.get()),
            seen: AtomicU64::new(0),
        })
    }

    /// Fails unless the cluster responds to a read.
    pub(super) async fn probe(&self) -> Result<()> {
        self.client.probe(&self.empty_read(0)).await
    }

    /// The latest revision.
    pub(super) async fn revision(&self) -> Result<Revision> {
        let answer = self.read(self.empty_read(0)).await.map_err(Failure::into_read_error)?;
        Ok(super::value::to_revision(proto::revision(&answer.header)))
    }

    /// A request that matches no key, to get the revision or an error in the response.
    pub(super) fn empty_read(&self, revision: i64) -> RangeRequest {
        let (key, range_end) = (self.keyspace.unused_key(), NO_END);
        RangeRequest { key, range_end, limit: 1, revision, count_only: true }
    }

    pub(super) fn oldest_known(&self) -> Revision {
        Revision::new(self.oldest.load(Ordering::Relaxed))
    }

    pub(super) fn learn_oldest(&self, revision: Revision) {
        self.oldest.fetch_max(revision.get(), Ordering::Relaxed);
    }

    pub(super) fn seen(&self) -> Revision {
        Revision::new(self.seen.load(Ordering::Acquire))
    }

    /// Records a revision that a caller is about to observe: [`At::Cached`] reads must not return an older state.
    pub(super) fn saw(&self, revision: Revision) {
        self.seen.fetch_max(revision.get(), Ordering::AcqRel);
    }

    pub(super) async fn stats(&self) -> Result<Stats> {
        let counted = self.count(b"", At::Latest).await?;
        let status = self.client.current_status().await.map_err(Failure::into_read_error)?;
        Ok(Stats {
            engine: "etcd",
            revision: counted.revision,
            oldest: self.oldest_known(),
            keys: counted.count,
            bytes: u64::try_from(status.db_size).unwrap_or(0),
            history: 0,
            history_bytes: 0,
            watchers: Arc::strong_count(&self.watchers) as u64 - 1,
            disk_bytes: 0,
        })
    }
}
