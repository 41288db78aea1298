//! Loads the mirror, follows etcd from there, and reloads the mirror after following has failed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use coracle_base::{Backoff, Rng, Task};

use super::apply::Apply;
use super::{ALWAYS, Mirror, NOTHING};
use crate::engine::etcd::failure::Failure;
use crate::engine::etcd::follow::Follower;
use crate::engine::etcd::proto::WatchCreateRequest;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::read::{Range, RangeRequest};

/// The first pause before the mirror is reloaded.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause: a reload reads everything, and a key that cannot be decoded makes every attempt fail.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Mirror {
    /// Follows etcd until the engine is closed.
    pub(super) async fn run(self: Arc<Self>, first: Result<Follower<Apply>>) {
        let closed = self.cluster.client.closed().clone();
        // Safe to drop at any point: nothing reads the state after the engine is closed.
        closed.run_until_cancelled(self.run_open(first)).await;
    }

    async fn run_open(self: &Arc<Self>, first: Result<Follower<Apply>>) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, Rng::from_entropy());
        let mut begun = first;
        loop {
            let error = match begun {
                Ok(mut follower) => {
                    backoff.reset();
                    follower.run().await.map_or(Error::Closed, |end| end.error())
                }
                Err(error) => error,
            };
            self.abandon();
            if matches!(error, Error::Closed) {
                return;
            }
            tracing::warn!(%error, "the mirror of etcd ended; reads go to etcd until it is complete again");
            tokio::time::sleep(backoff.next_delay()).await;
            begun = self.begin().await;
        }
    }

    /// Reads everything at one revision, and opens the watch that continues from there.
    pub(super) async fn begin(self: &Arc<Self>) -> Result<Follower<Apply>> {
        let range = self.cluster.range(RangeRequest::prefix("")).await?;
        let revision = range.revision;
        let index = Task::spawn_blocking("etcd-mirror-load", move || indexed(range));
        let index = index.await.map_err(|error| Error::Internal(error.to_string()))?;
        let create = WatchCreateRequest {
            key: self.cluster.keyspace.full_key(b""),
            range_end: self.cluster.keyspace.prefix_end(b""),
            start_revision: i64::try_from(revision.next().get()).unwrap_or(i64::MAX),
            // The mirror has the previous values.
            prev_kv: false,
        };
        let (cluster, requests) = (self.cluster.clone(), self.requests.clone());
        let follower = Follower::open(cluster, create, requests, Apply::to(self.clone())).await;
        let follower = follower.map_err(Failure::into_read_error)?;
        self.adopt(index);
        Ok(follower)
    }

    fn adopt(&self, index: Index) {
        let revision = index.revision();
        let mut working = self.lock();
        *working = index;
        self.local.restart(working.clone());
        drop(working);
        self.bypassed_until.store(0, Ordering::Relaxed);
        self.reached.send_replace(revision);
    }

    /// Marks the mirror as incomplete from now on.
    fn abandon(&self) {
        self.bypassed_until.store(ALWAYS, Ordering::Relaxed);
        self.reached.send_replace(NOTHING);
    }
}

fn indexed(range: Range) -> Index {
    let mut index = Index::empty(range.revision);
    range.entries.iter().for_each(|entry| index.restore(&entry.to_parts()));
    index
}
