//! Health of the etcd cluster, derived from the outcomes of requests, and the task that retests it.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Task;
use tokio::sync::Notify;
use tonic::Code;

use super::cluster::Cluster;
use super::failure::Failure;
use crate::error::{Error, Result};
use crate::health::WriteHealth;

/// Interval at which an unreachable cluster is retested, so that readiness returns without a client's request. Shorter
/// than a load balancer's interval, longer than an election.
const RETEST_EVERY: Duration = Duration::from_secs(2);

/// Reachability of the cluster, and its acceptance of writes.
#[derive(Default)]
pub(super) struct Health {
    /// Set by a request without a response, cleared by any response.
    reach: WriteHealth,
    /// Set when etcd rejects a write for lack of a resource, above all its space quota; cleared by a successful
    /// write.
    writes: WriteHealth,
    unreachable: Notify,
}

impl Health {
    pub(super) fn check(&self) -> Result<()> {
        self.reach.check()?;
        self.writes.check()
    }

    /// Records the outcome of a request.
    pub(super) fn note<T>(&self, outcome: &Result<T, Failure>) {
        match outcome {
            Ok(_) | Err(Failure::Rejected { .. }) => self.reach.clear(),
            Err(Failure::Unsent(reason) | Failure::Unanswered(reason)) => {
                self.reach.fail(&Error::Unavailable(reason.clone()));
                self.unreachable.notify_one();
            }
            Err(Failure::Closed) => {}
        }
    }

    /// Records the outcome of a write.
    pub(super) fn note_write<T>(&self, outcome: &Result<T, Failure>) {
        match outcome {
            Ok(_) => self.writes.clear(),
            Err(failure) if failure.is_rejected_with(Code::ResourceExhausted) => {
                self.writes.fail(&failure.clone().into_write_error());
            }
            Err(_) => {}
        }
    }
}

/// Starts the task that retests an unreachable cluster until it responds or the engine is closed.
pub(super) fn start(cluster: Arc<Cluster>) -> Task<()> {
    Task::spawn("etcd-health", async move {
        let closed = cluster.client.closed().clone();
        // Safe to drop at any point: a test is a single read.
        closed.run_until_cancelled(retest(&cluster)).await;
    })
}

async fn retest(cluster: &Cluster) {
    let health = &cluster.client.health;
    loop {
        health.unreachable.notified().await;
        while health.reach.check().is_err() {
            tokio::time::sleep(RETEST_EVERY).await;
            // The request records its outcome itself.
            let _ = cluster.revision().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_follows_the_outcome_of_requests() {
        let health = Health::default();
        let lost: Result<(), Failure> = Err(Failure::Unanswered("http://a:1: no answer in time".to_owned()));
        health.note(&lost);
        let reason = health.check().unwrap_err();
        assert!(matches!(&reason, Error::Unavailable(text) if text.contains("no answer")), "{reason}");
        health.note(&Ok(()));
        assert!(health.check().is_ok());
        let message = "etcdserver: mvcc: database space exceeded".to_owned();
        let full: Result<(), Failure> = Err(Failure::Rejected { code: Code::ResourceExhausted, message });
        health.note(&full);
        health.note_write(&full);
        assert!(matches!(health.check(), Err(Error::Refused(_))));
        health.note(&Ok(()));
        assert!(health.check().is_err(), "a read proves nothing about writes");
        health.note_write(&Ok(()));
        assert!(health.check().is_ok());
    }
}
