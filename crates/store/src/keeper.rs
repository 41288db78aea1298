//! The task that compacts history and deletes expired keys.
//!
//! It sleeps until the earliest of these is due, and is woken when that time changes: an idle store without pending
//! work causes no wakeups.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;
use tokio::sync::{mpsc, oneshot};

use crate::engine::local::Writer;
use crate::error::{Error, Result};
use crate::local::Local;
use crate::revision::Revision;
use crate::txn::{Delete, Expect, Txn};

/// Expired keys that are deleted before the clock is read again.
const EXPIRE_CHUNK: usize = 256;

/// Delay before maintenance is retried after a failure, such as a full disk.
const RETRY_MS: u64 = 5_000;

/// A compaction requested by a caller.
pub(crate) struct CompactRequest {
    pub(crate) oldest: Revision,
    pub(crate) reply: oneshot::Sender<Result<()>>,
}

/// Runs until the store is closed; work in progress is finished or aborted cleanly.
pub(crate) async fn run(engine: Arc<impl Writer>, mut requests: mpsc::Receiver<CompactRequest>) {
    let local = engine.local().clone();
    let mut retry_at = None;
    loop {
        let due = if retry_at.is_some() { retry_at } else { next_due(&local) };
        // All branches are safe to drop: they only wait.
        tokio::select! {
            biased;
            () = local.closed.cancelled() => return,
            Some(request) = requests.recv() => {
                // The send fails if the caller no longer waits.
                let _ = request.reply.send(engine.compact(request.oldest).await);
                continue;
            }
            () = local.upkeep.notified(), if retry_at.is_none() => {}
            () = sleep(&local, due) => {}
        }
        retry_at = match keep(&*engine).await {
            Ok(()) => None,
            Err(Error::Closed) => return,
            Err(error) => {
                tracing::warn!(%error, "store maintenance failed, will be retried");
                Some(local.clock.now() + Duration::from_millis(RETRY_MS))
            }
        };
    }
}

fn next_due(local: &Local) -> Option<Timestamp> {
    let retest = local.health.is_disk_full().then(|| local.clock.now() + Duration::from_millis(RETRY_MS));
    [local.expiry.next_due(), local.compaction_due(), retest].into_iter().flatten().min()
}

async fn sleep(local: &Local, due: Option<Timestamp>) {
    match due {
        Some(due) => local.clock.sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn keep(engine: &impl Writer) -> Result<()> {
    // Each step runs regardless of the others' results: compaction may free the space that they need.
    let compacted = compact_if_due(engine).await;
    if engine.local().health.is_disk_full() {
        // The failure has been recorded and logged; the next run retries.
        let _ = engine.retest_space().await;
    }
    expire(engine).await.and(compacted)
}

async fn compact_if_due(engine: &impl Writer) -> Result<()> {
    match engine.local().compaction_target() {
        Some(target) => engine.compact(target).await,
        None => Ok(()),
    }
}

async fn expire(engine: &impl Writer) -> Result<()> {
    let local = engine.local();
    loop {
        let due = local.expiry.due(local.clock.now(), EXPIRE_CHUNK);
        if due.is_empty() {
            return Ok(());
        }
        for key in due {
            let Some(entry) = local.snapshot().get(&key) else { continue };
            let expect = Expect::ModRevision(entry.mod_revision());
            match engine.commit(Txn::new().delete(Delete::new(key).expect(expect))).await {
                // Rewritten meanwhile: the key has a new due time, or none.
                Ok(_) | Err(Error::Conflict(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
