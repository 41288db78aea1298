//! Whether a connection is used: how many of its requests are under way, their answers included.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// The requests of a connection.
#[derive(Default)]
pub(super) struct Activity {
    running: AtomicUsize,
    begun: AtomicU64,
    last_ended: Notify,
}

impl Activity {
    /// Notes a request that has come.
    pub(super) fn begin(self: &Arc<Self>) -> Running {
        self.running.fetch_add(1, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
        Running(self.clone())
    }

    /// Returns when there was no request for so long. Safe to drop.
    pub(super) async fn idle(&self, limit: Duration) {
        loop {
            let ended = self.last_ended.notified();
            if self.running.load(Ordering::SeqCst) > 0 {
                ended.await;
                continue;
            }
            let begun = self.begun.load(Ordering::SeqCst);
            tokio::time::sleep(limit).await;
            if self.running.load(Ordering::SeqCst) == 0 && self.begun.load(Ordering::SeqCst) == begun {
                return;
            }
        }
    }
}

/// A request that is under way.
pub(super) struct Running(Arc<Activity>);

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.last_ended.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(90);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_only_after_its_last_request() {
        let activity = Arc::new(Activity::default());
        let began = tokio::time::Instant::now();
        let request = activity.begin();
        let idle = activity.idle(LIMIT);
        tokio::pin!(idle);
        let long = tokio::time::timeout(10 * LIMIT, &mut idle).await;
        assert!(long.is_err(), "a request is under way");
        drop(request);
        idle.await;
        assert_eq!(began.elapsed(), 11 * LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_in_between_makes_it_wait_again() {
        let activity = Arc::new(Activity::default());
        let began = tokio::time::Instant::now();
        let idle = activity.idle(LIMIT);
        tokio::pin!(idle);
        assert!(tokio::time::timeout(LIMIT / 2, &mut idle).await.is_err());
        drop(activity.begin());
        idle.await;
        assert!(began.elapsed() > LIMIT);
    }
}
