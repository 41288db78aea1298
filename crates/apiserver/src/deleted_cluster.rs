//! Cleanup after a cluster that is deleted while a request to it runs.

use coracle_registry::Cluster;
use tokio_util::sync::CancellationToken;

use crate::ApiServer;

/// Frees the caches of a cluster again at the end of a request during which it was deleted: the request may have
/// filled them after the deletion freed them.
pub(crate) struct FreedIfDeleted<'a> {
    server: &'a ApiServer,
    /// None for a cluster that cannot be deleted.
    cluster: Option<(String, CancellationToken)>,
}

impl<'a> FreedIfDeleted<'a> {
    pub(crate) fn new(server: &'a ApiServer, cluster: &Cluster) -> Self {
        let deletion = cluster.deletion().cloned();
        Self { server, cluster: deletion.map(|deletion| (cluster.id().to_owned(), deletion)) }
    }
}

impl Drop for FreedIfDeleted<'_> {
    fn drop(&mut self) {
        if let Some((id, deletion)) = &self.cluster
            && deletion.is_cancelled()
        {
            self.server.forget_cluster(id);
        }
    }
}
