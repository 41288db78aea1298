//! Reading one object, and waiting for a revision.

use std::time::Duration;

use coracle_store::{At, Error as StoreError, Get, Revision, WatchRequest};

use super::Object;
use crate::cluster::Cluster;
use crate::error::{Error, Result, Subject};
use crate::keys;
use crate::kind::Kind;

/// How long a read waits for a future revision, as in kube-apiserver (`blockTimeout` in
/// `pkg/storage/cacher/watch_cache.go` of k8s.io/apiserver).
pub(super) const WAIT_FOR_REVISION: Duration = Duration::from_secs(3);

impl Cluster {
    /// Reads one object, at the latest revision or at one that is not older than a given revision. Waits if the store
    /// has not reached that revision yet.
    ///
    /// # Errors
    /// If the object does not exist, or the revision is not reached in time.
    pub async fn get(
        &self,
        kind: &dyn Kind,
        namespace: &str,
        name: &str,
        not_older_than: Option<Revision>,
    ) -> Result<Object> {
        let declaration = kind.declaration();
        let key = keys::key(declaration, namespace, name);
        let at = not_older_than.map_or(At::Latest, At::NotOlderThan);
        let found: Get = match self.store.get_at(&key, at).await {
            Err(StoreError::FutureRevision { requested, .. }) => {
                self.wait_for(requested, WAIT_FOR_REVISION).await?;
                self.store.get_at(&key, at).await?
            }
            found => found?,
        };
        let entry = found.entry.ok_or_else(|| Error::NotFound(Box::new(Subject::of(declaration, name))))?;
        Ok(Object { json: entry.value(), revision: entry.mod_revision() })
    }

    /// Waits for a change in this cluster at this revision or a later one, for at most `limit`. The caller must read
    /// again in any case: the revision may belong to a change elsewhere.
    pub(super) async fn wait_for(&self, revision: Revision, limit: Duration) -> Result<()> {
        let mut changes = self.store.watch(WatchRequest::prefix([]).from(revision)).await?;
        match tokio::time::timeout(limit, changes.next()).await {
            Ok(Err(error)) => Err(error.into()),
            Ok(Ok(_)) | Err(_) => Ok(()),
        }
    }
}
