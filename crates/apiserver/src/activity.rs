//! Detection of idle servers, so that owners can free resources while no requests arrive.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// Counts the requests of a server, from the network and from within the process. At most one task may wait for the
/// next request.
#[derive(Debug, Default)]
pub struct Activity {
    requests: AtomicU64,
    /// Set while a task waits for the next request; every other request only reads it.
    is_awaited: AtomicBool,
    resumed: Notify,
}

impl Activity {
    pub(crate) fn note(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.is_awaited.load(Ordering::Relaxed) {
            self.is_awaited.store(false, Ordering::Relaxed);
            self.resumed.notify_one();
        }
    }

    /// Returns after `length` without a request. Cancel-safe: it only waits.
    pub async fn quiet(&self, length: Duration) {
        loop {
            let before = self.requests.load(Ordering::Relaxed);
            tokio::time::sleep(length).await;
            if self.requests.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }

    /// Returns at the first request after the call. Cancel-safe: it only waits.
    pub async fn resumed(&self) {
        self.is_awaited.store(true, Ordering::Relaxed);
        self.resumed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn quiet_returns_after_an_interval_without_requests() {
        let activity = Arc::new(Activity::default());
        let began = Instant::now();
        let asking = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(4)).await;
                activity.note();
            }
            std::future::pending().await
        };
        tokio::select! {
            () = activity.quiet(Duration::from_secs(5)) => {}
            () = asking => {}
        }
        // Twelve seconds of requests; the first whole interval without any ends at the twentieth.
        assert_eq!(began.elapsed(), Duration::from_secs(20));
    }

    #[tokio::test(start_paused = true)]
    async fn resumed_returns_at_the_next_request_only() {
        let activity = Activity::default();
        activity.note();
        let waits = Duration::from_secs(1);
        assert!(tokio::time::timeout(waits, activity.resumed()).await.is_err(), "that was before");
        tokio::join!(activity.resumed(), async { activity.note() });
        activity.note();
        assert!(tokio::time::timeout(waits, activity.resumed()).await.is_err(), "nobody waited then");
    }
}
