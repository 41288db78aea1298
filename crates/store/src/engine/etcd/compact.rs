//! Compaction: on request, and by age.

use std::sync::Arc;

use coracle_base::Task;
use tonic::Code;

use super::client::Repeat;
use super::cluster::Cluster;
use super::options::Options;
use super::proto::CompactionRequest;
use super::rpc;
use crate::error::{Error, Result};
use crate::revision::Revision;

/// Starts compaction by age, unless the options turn it off.
pub(super) fn start(cluster: Arc<Cluster>, options: &Options) -> Option<Task<()>> {
    if options.compaction.max_age.is_zero() {
        return None;
    }
    Some(Task::spawn("etcd-compaction", async move {
        let closed = cluster.client.closed().clone();
        // Safe to drop at any point: a compaction is a single request.
        closed.run_until_cancelled(compact_by_age(&cluster)).await;
    }))
}

/// Compacts periodically to the revision that was the latest one `history_age` ago. Several engines may do this to
/// one cluster; for all but the first it has no effect.
async fn compact_by_age(cluster: &Cluster) {
    loop {
        let seen = cluster.revision().await;
        cluster.clock.sleep_until(cluster.clock.now() + cluster.history_age).await;
        let compacted = match seen {
            Ok(revision) => cluster.compact(revision).await,
            Err(error) => Err(error),
        };
        if let Err(error) = compacted {
            tracing::warn!(%error, "history in etcd was not compacted, which is tried again later");
        }
    }
}

impl Cluster {
    pub(super) async fn compact(&self, revision: Revision) -> Result<()> {
        let Ok(number) = i64::try_from(revision.get()) else {
            return Err(Error::FutureRevision { requested: revision, current: self.revision().await? });
        };
        let request = CompactionRequest { revision: number };
        match self.client.call(&rpc::COMPACT, Repeat::Always, request).await {
            Ok(_) => {}
            Err(failure) if failure.is_rejected_with(Code::OutOfRange) => {
                self.not_in_future(revision).await?
            }
            Err(failure) => return Err(failure.into_read_error()),
        }
        self.learn_oldest(revision);
        Ok(())
    }

    /// Etcd rejects past and future revisions with the same code.
    async fn not_in_future(&self, requested: Revision) -> Result<()> {
        let current = self.revision().await?;
        if requested > current { Err(Error::FutureRevision { requested, current }) } else { Ok(()) }
    }
}
