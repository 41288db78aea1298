//! Counts the requests in flight of a connection, until their responses are written, for idle timeout and shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// The requests of a connection.
#[derive(Default)]
pub(super) struct Activity {
    running: AtomicUsize,
    /// Requests in flight whose response lasts until one side ends it, such as watches.
    long_running: AtomicUsize,
    begun: AtomicU64,
    last_ended: Notify,
    /// Notified when a request ends or becomes long-running.
    settled: Notify,
}

impl Activity {
    /// Counts a request as in flight until the returned guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Running {
        self.running.fetch_add(1, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
        Running { activity: self.clone(), is_long: false }
    }

    /// Returns when only long-running requests were in flight for `grace`. Safe to drop.
    pub(super) async fn only_long_running(&self, grace: Duration) {
        loop {
            let settled = self.settled.notified();
            if self.has_short() {
                settled.await;
                continue;
            }
            tokio::time::sleep(grace).await;
            if !self.has_short() {
                return;
            }
        }
    }

    fn has_short(&self) -> bool {
        self.running.load(Ordering::SeqCst) > self.long_running.load(Ordering::SeqCst)
    }

    /// Returns when no request was in flight for `limit`. Safe to drop.
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

/// A guard that counts a request in flight until it is dropped.
pub(super) struct Running {
    activity: Arc<Activity>,
    is_long: bool,
}

impl Running {
    /// Marks the request as long-running: its response lasts until one side ends it.
    pub(super) fn set_long_running(&mut self) {
        if !std::mem::replace(&mut self.is_long, true) {
            self.activity.long_running.fetch_add(1, Ordering::SeqCst);
            self.activity.settled.notify_one();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_long {
            self.activity.long_running.fetch_sub(1, Ordering::SeqCst);
        }
        if self.activity.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.activity.last_ended.notify_one();
        }
        self.activity.settled.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(90);

    #[tokio::test(start_paused = true)]
    async fn connection_is_idle_only_after_its_last_request() {
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
    async fn request_restarts_the_idle_timeout() {
        let activity = Arc::new(Activity::default());
        let began = tokio::time::Instant::now();
        let idle = activity.idle(LIMIT);
        tokio::pin!(idle);
        assert!(tokio::time::timeout(LIMIT / 2, &mut idle).await.is_err());
        drop(activity.begin());
        idle.await;
        assert!(began.elapsed() > LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn long_running_requests_delay_shutdown_by_the_grace_only() {
        let activity = Arc::new(Activity::default());
        let began = tokio::time::Instant::now();
        let (short, mut watch) = (activity.begin(), activity.begin());
        watch.set_long_running();
        let only_watches = activity.only_long_running(LIMIT);
        tokio::pin!(only_watches);
        assert!(
            tokio::time::timeout(10 * LIMIT, &mut only_watches).await.is_err(),
            "a short one is under way"
        );
        drop(short);
        only_watches.await;
        assert_eq!(began.elapsed(), 11 * LIMIT);
        drop(watch);
    }
}
