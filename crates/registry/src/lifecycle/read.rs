//! Reading one object, and waiting for a revision to read at.

use std::time::Duration;

use coracle_store::{At, Error as StoreError, Get, Revision, WatchRequest};

use super::Object;
use crate::cluster::Cluster;
use crate::error::{Error, Result, Subject};
use crate::keys;
use crate::kind::Kind;

/// How long a reader waits for a revision that has not been made yet, as in upstream
/// (`blockTimeout` in `pkg/storage/cacher/watch_cache.go` of k8s.io/apiserver).
pub(super) const WAIT_FOR_REVISION: Duration = Duration::from_secs(3);

impl Cluster {
    /// One object, at the latest revision, or in any state that is not older than a revision. If the store has not
    /// come that far, it is waited for.
    ///
    /// # Errors
    /// If there is none, or the revision is not made in time.
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

    /// Waits until a change of this cluster has this revision or a later one, but not longer than
    /// `limit`. Who asked has to look again: the revision may have come with a change elsewhere.
    pub(super) async fn wait_for(&self, revision: Revision, limit: Duration) -> Result<()> {
        let mut changes = self.store.watch(WatchRequest::prefix([]).from(revision)).await?;
        match tokio::time::timeout(limit, changes.next()).await {
            Ok(Err(error)) => Err(error.into()),
            Ok(Ok(_)) | Err(_) => Ok(()),
        }
    }
}
