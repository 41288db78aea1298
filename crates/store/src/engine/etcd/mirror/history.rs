//! Compacts the mirror's history: by age and size, and when etcd is compacted through this engine.

use std::sync::Arc;

use super::Mirror;
use crate::error::Result;
use crate::revision::Revision;

impl Mirror {
    /// Compacts by policy until the engine is closed.
    pub(super) async fn keep_history(self: Arc<Self>) {
        let local = &self.local;
        loop {
            let due = async {
                match local.compaction_due() {
                    Some(due) => local.clock.sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            // All branches are safe to drop: they only wait.
            tokio::select! {
                biased;
                () = local.closed.cancelled() => return,
                () = local.upkeep.notified() => {}
                () = due => {}
            }
            if let Some(target) = local.compaction_target()
                && let Err(error) = self.forget(target).await
            {
                tracing::warn!(%error, "the history of the mirror of etcd was not compacted");
            }
        }
    }

    /// Compacts the mirror after etcd was compacted, which other engines may not have observed. History that has not
    /// arrived yet is kept, because watchers must receive it.
    pub(in crate::engine::etcd) async fn compact(&self, oldest: Revision) -> Result<()> {
        self.wait(oldest).await;
        self.forget(oldest.min(self.local.snapshot().revision())).await
    }

    async fn forget(&self, oldest: Revision) -> Result<()> {
        let dead = self.local.forget(oldest).await?;
        let mut working = self.lock();
        dead.iter().for_each(|tombstone| working.purge(tombstone));
        self.local.publish(working.clone(), &[]);
        Ok(())
    }
}
