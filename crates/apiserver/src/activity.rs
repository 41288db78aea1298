//! Whether anybody asks anything, for owners who put things away while nobody does.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// Requests of a server, from the network and in the process, as a sign of life. One owner may wait for them.
#[derive(Debug, Default)]
pub struct Activity {
    requests: AtomicU64,
    /// Whether somebody waits for the next request: all others only look at this.
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

    /// Returns when no request has come for so long. Safe to drop: it only waits.
    pub async fn quiet(&self, length: Duration) {
        loop {
            let before = self.requests.load(Ordering::Relaxed);
            tokio::time::sleep(length).await;
            if self.requests.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }

    /// Returns when a request has come since this was called. Safe to drop: it only waits.
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
    async fn it_is_quiet_when_nobody_has_asked_for_a_while() {
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
        // Twelve seconds of requests; the first whole span without any ends at the twentieth.
        assert_eq!(began.elapsed(), Duration::from_secs(20));
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_request_is_told_once() {
        let activity = Activity::default();
        activity.note();
        let waits = Duration::from_secs(1);
        assert!(tokio::time::timeout(waits, activity.resumed()).await.is_err(), "that was before");
        tokio::join!(activity.resumed(), async { activity.note() });
        activity.note();
        assert!(tokio::time::timeout(waits, activity.resumed()).await.is_err(), "nobody waited then");
    }
}
