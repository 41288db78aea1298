//! Directs requests to the leader: a follower forwards writes and linearizable reads, which delays the response.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Task;

use super::cluster::Cluster;

/// Interval of looking up the leader. Leaders change rarely, and another member is only slightly slower.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Starts the task that looks up the leader until the engine is closed.
pub(super) fn start(cluster: Arc<Cluster>) -> Task<()> {
    Task::spawn("etcd-leader", async move {
        let closed = cluster.client.closed().clone();
        // Safe to drop at any point: a lookup is a few reads.
        closed.run_until_cancelled(look(&cluster)).await;
    })
}

async fn look(cluster: &Cluster) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        cluster.client.prefer_leader().await;
    }
}
