//! Read-your-writes for controllers: no reconcile runs on a cache that lacks the controller's own last writes.
//!
//! An informer's cache lags behind the server by the delay of its watch. A controller that counts pods and creates
//! the missing ones from a stale cache would create them twice. So a controller notes its writes per key, and waits
//! before it reconciles that key again until its informer has seen them, which is usually the case by then. Nothing
//! is estimated and nothing expires, unlike the expectations of client-go's controllers.
//!
//! The same holds for objects that the server reports as outdated: without waiting, a controller whose set is gone
//! would create pods as fast as the garbage collector deletes them, until a broken watch is restored. It waits for
//! that only once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::informer::{Informer, View};
use crate::key::ObjectKey;

/// How long a worker waits for a stale informer before it returns the key to the queue and takes another. The noted
/// writes stay noted.
const STALE_WAIT: Duration = Duration::from_secs(5);

/// The informer has not yet seen the writes noted for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("informer cache has not yet seen this controller's last write")]
pub struct StaleCache;

/// Writes of a controller to the objects of one informer, by the key that was reconciled.
#[derive(Debug, Default)]
pub struct ReadYourWrites {
    unseen: Mutex<HashMap<ObjectKey, Unseen>>,
}

#[derive(Debug, Default)]
struct Unseen {
    /// Highest resource version written.
    revision: u64,
    /// Deleted objects and their uids. The response to a deletion holds no resource version.
    deleted: Vec<(ObjectKey, Box<str>)>,
    /// Cached version of the object at the key itself that the server no longer has.
    outdated: Option<Box<str>>,
}

impl ReadYourWrites {
    /// Notes that the reconcile of `key` wrote an object, which now has this resource version.
    pub fn note(&self, key: &ObjectKey, resource_version: &str) {
        // Only numeric versions can be compared with the progress of an informer.
        let revision = resource_version.parse().unwrap_or_default();
        let mut unseen = self.unseen();
        let entry = unseen.entry(key.clone()).or_default();
        entry.revision = entry.revision.max(revision);
    }

    /// Notes that the reconcile of `key` began the deletion of `object`.
    pub fn note_deleted(&self, key: &ObjectKey, object: ObjectKey, uid: &str) {
        self.unseen().entry(key.clone()).or_default().deleted.push((object, uid.into()));
    }

    /// Notes that the server rejected a write to the object at `key` because it has changed since this version, or is
    /// gone. Reconciling again from the same cache would fail again, in a busy loop.
    pub fn note_outdated(&self, key: &ObjectKey, resource_version: &str) {
        self.unseen().entry(key.clone()).or_default().outdated = Some(resource_version.into());
    }

    /// Waits until the informer has seen all writes noted for `key`. The informer must be the one of the object at
    /// `key` if [`note_outdated`](Self::note_outdated) was called for it.
    ///
    /// # Errors
    /// If this takes longer than five seconds. The caller should retry the key.
    pub async fn seen<V: View>(&self, key: &ObjectKey, informer: &Informer<V>) -> Result<(), StaleCache> {
        let mut progress = informer.progress();
        let seen = progress.wait_for(|progress| self.has_seen(key, informer, progress.revision));
        let result = tokio::time::timeout(STALE_WAIT, seen).await;
        if let Ok(Ok(_)) = result {
            return Ok(());
        }
        // The rejection may have another cause, and the object may never change: one wait is enough.
        if let Some(unseen) = self.unseen().get_mut(key) {
            unseen.outdated = None;
        }
        Err(StaleCache)
    }

    /// Removes the noted writes of `key` that the informer has seen. True if none is left.
    fn has_seen<V: View>(&self, key: &ObjectKey, informer: &Informer<V>, revision: u64) -> bool {
        let mut all = self.unseen();
        let Some(unseen) = all.get_mut(key) else { return true };
        unseen.deleted.retain(|(object, uid)| {
            let known = informer.store().get(object);
            known.is_some_and(|known| {
                let metadata = known.metadata();
                metadata.uid == *uid && metadata.deletion_timestamp.is_none()
            })
        });
        let is_recent = unseen.revision <= revision;
        // A cache that lacks the controller's own writes is also older than the rejection.
        if let Some(outdated) = unseen.outdated.as_deref().filter(|_| is_recent) {
            let known = informer.store().get(key);
            if known.is_none_or(|known| *known.metadata().resource_version != *outdated) {
                unseen.outdated = None;
            }
        }
        let done = is_recent && unseen.deleted.is_empty() && unseen.outdated.is_none();
        if done {
            all.remove(key);
        }
        done
    }

    fn unseen(&self) -> MutexGuard<'_, HashMap<ObjectKey, Unseen>> {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
