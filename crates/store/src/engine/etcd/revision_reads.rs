//! Reads of the latest revision, shared by concurrent callers.
//!
//! A caller may only use a read that started after its call, or it would miss writes acknowledged in between. So
//! there are at most two reads: a running one, and one that starts when it ends and is shared by all later callers.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::Shared;

use super::cluster::Cluster;
use crate::engine::BoxFuture;
use crate::error::Result;
use crate::revision::Revision;

type Reading = Shared<BoxFuture<'static, Result<Revision>>>;

/// The reads of the latest revision.
#[derive(Default)]
pub(super) struct RevisionReads {
    readings: Mutex<Readings>,
}

#[derive(Default)]
struct Readings {
    /// May have started before the current caller.
    running: Option<Reading>,
    /// Starts when the running one has ended.
    next: Option<Reading>,
}

impl RevisionReads {
    /// The latest revision at some time after this call.
    pub(super) async fn latest(&self, cluster: &Arc<Cluster>) -> Result<Revision> {
        let cluster = cluster.clone();
        let read = || async move { cluster.revision().await };
        let reading = self.join(read);
        reading.await
    }

    fn join<F>(&self, read: impl FnOnce() -> F) -> Reading
    where
        F: Future<Output = Result<Revision>> + Send + 'static,
    {
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let Readings { running, next } = &mut *readings;
        if running.as_ref().is_some_and(|reading| reading.peek().is_some()) {
            *running = next.take();
        }
        match running.as_ref().filter(|reading| reading.peek().is_none()).cloned() {
            None => running.insert(boxed(read()).shared()).clone(),
            Some(earlier) => {
                let later = read();
                let start = || {
                    boxed(async move {
                        // Its result does not concern callers that came after it had started.
                        let _ = earlier.await;
                        later.await
                    })
                };
                next.get_or_insert_with(|| start().shared()).clone()
            }
        }
    }
}

fn boxed(
    future: impl Future<Output = Result<Revision>> + Send + 'static,
) -> BoxFuture<'static, Result<Revision>> {
    Box::pin(future)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// A store whose reads wait for a permit each, and return their number.
    struct Source {
        started: AtomicU64,
        permits: Semaphore,
    }

    impl Source {
        fn new() -> Arc<Self> {
            Arc::new(Self { started: AtomicU64::new(0), permits: Semaphore::new(0) })
        }

        async fn read(self: Arc<Self>) -> Result<Revision> {
            let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
            self.permits.acquire().await.unwrap().forget();
            Ok(Revision::new(number))
        }
    }

    #[tokio::test]
    async fn callers_during_a_read_share_the_one_after_it() {
        let (reads, source) = (RevisionReads::default(), Source::new());
        let join = || reads.join(|| source.clone().read());
        let mut first = join();
        assert!((&mut first).now_or_never().is_none(), "it runs");
        let (mut second, third) = (join(), join());
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(source.started.load(Ordering::Relaxed), 1, "the second has not started");
        source.permits.add_permits(1);
        assert_eq!(first.await.unwrap(), Revision::new(1));
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(source.started.load(Ordering::Relaxed), 2);
        // The second read has started, so this caller needs a third.
        let fourth = join();
        source.permits.add_permits(2);
        assert_eq!(second.await.unwrap(), Revision::new(2));
        assert_eq!(third.await.unwrap(), Revision::new(2));
        assert_eq!(fourth.await.unwrap(), Revision::new(3));
    }

    #[tokio::test]
    async fn dropped_callers_leave_the_read_to_others() {
        let (reads, source) = (RevisionReads::default(), Source::new());
        let join = || reads.join(|| source.clone().read());
        let mut first = join();
        assert!((&mut first).now_or_never().is_none());
        drop(first);
        let second = join();
        source.permits.add_permits(2);
        assert_eq!(second.await.unwrap(), Revision::new(2));
    }
}
