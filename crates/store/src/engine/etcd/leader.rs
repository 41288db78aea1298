//! Sending requests to the leader: a follower passes writes and linearizable reads on to it, and answers a step later.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Task;

use super::cluster::Cluster;

/// How often the leader is looked for. Leaders change seldom, and another member only takes a little longer.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Starts the task that looks for the leader until the engine is closed.
pub(super) fn start(cluster: Arc<Cluster>) -> Task<()> {
    Task::spawn("etcd-leader", async move {
        let closed = cluster.client.closed().clone();
        // Safe to drop at any point: a look is a few reads.
        closed.run_until_cancelled(look(&cluster)).await;
    })
}

async fn look(cluster: &Cluster) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        cluster.client.prefer_leader().await;
    }
}
