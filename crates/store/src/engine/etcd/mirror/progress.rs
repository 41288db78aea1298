//! Watches of the mirror, and their progress requests, which concern etcd, not the mirror.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Mirror;
use crate::engine::BoxFuture;
use crate::error::{Error, Result};
use crate::watch::{ProgressHandle, Watch, WatchEvent, WatchSource};

/// Pause after the latest revision could not be read; the attempt had its own retries.
const READ_PAUSE: Duration = Duration::from_secs(1);

/// Wraps a watch of the mirror.
pub(super) fn watch(mirror: Arc<Mirror>, copy: Watch) -> Watch {
    let (handle, requests) = ProgressHandle::new();
    Watch::new(Box::new(MirrorWatch { mirror, copy, requests, catching_up: None }), handle)
}

struct MirrorWatch {
    mirror: Arc<Mirror>,
    copy: Watch,
    requests: watch::Receiver<u64>,
    /// Progress was requested: completes when the mirror has everything that etcd had then.
    catching_up: Option<BoxFuture<'static, ()>>,
}

impl WatchSource for MirrorWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<WatchEvent>> {
        Box::pin(self.next_event())
    }

    fn try_next(&mut self) -> Option<Result<WatchEvent>> {
        self.copy.try_next()
    }
}

impl MirrorWatch {
    /// All state is in `self`, so the future is safe to drop.
    async fn next_event(&mut self) -> Result<WatchEvent> {
        let Self { mirror, copy, requests, catching_up } = self;
        loop {
            let is_idle = catching_up.is_none();
            let caught_up = async {
                match catching_up.as_mut() {
                    Some(catching_up) => catching_up.await,
                    None => std::future::pending().await,
                }
            };
            let is_caught_up = tokio::select! {
                biased;
                event = copy.next() => return event,
                () = caught_up => true,
                // A request during this time stays marked as new, and concerns a later revision.
                Ok(()) = requests.changed(), if is_idle => false,
            };
            if is_caught_up {
                *catching_up = None;
                copy.progress_handle().request();
            } else {
                *catching_up = Some(Box::pin(catch_up(mirror.clone())));
            }
        }
    }
}

/// Completes when the mirror has everything that etcd has now.
async fn catch_up(mirror: Arc<Mirror>) {
    loop {
        match mirror.latest().await {
            Ok(revision) => return mirror.reach(revision).await,
            // The watch is about to end.
            Err(Error::Closed) => std::future::pending().await,
            Err(error) => tracing::debug!(%error, "cannot read the latest revision for a watch"),
        }
        tokio::time::sleep(READ_PAUSE).await;
    }
}
