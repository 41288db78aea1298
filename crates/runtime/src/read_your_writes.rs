//! Deciding on nothing that lacks one's own last writes.
//!
//! What a controller knows comes from a watch, which lags behind what it wrote a moment ago. Whoever counts
//! pods and makes the missing ones would then make them twice. So a controller notes what it wrote for a
//! key, and waits, before it looks at that key again, until its informer has seen it. That is usually so by
//! then. Nothing of that is guessed and nothing expires; the expectations of client-go's controllers do both.
//!
//! The same goes for what it knows to be old because the server said so: a set that is gone would else make pods as
//! fast as others delete them, until a watch that broke off is back. That is waited for once only.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::informer::{Informer, View};
use crate::key::ObjectKey;

/// How long a worker waits for an informer that is behind, before it gives the key back and works on
/// another. None of its writes is forgotten by that.
const STALE_WAIT: Duration = Duration::from_secs(5);

/// The informer has not seen what was written for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("informer cache has not yet seen this controller's last write")]
pub struct StaleCache;

/// What a controller has written to the objects of one informer, by the key it was working on.
#[derive(Debug, Default)]
pub struct ReadYourWrites {
    unseen: Mutex<HashMap<ObjectKey, Unseen>>,
}

#[derive(Debug, Default)]
struct Unseen {
    /// The newest version that was written.
    revision: u64,
    /// What was deleted: the object, and which one it was. A deletion answers with no version.
    deleted: Vec<(ObjectKey, Box<str>)>,
    /// The version of the object at the key itself that the server does not have any more.
    outdated: Option<Box<str>>,
}

impl ReadYourWrites {
    /// Notes that an object came to be at this version while working on `key`.
    pub fn note(&self, key: &ObjectKey, resource_version: &str) {
        // What is no number cannot be waited for.
        let revision = resource_version.parse().unwrap_or_default();
        let mut unseen = self.unseen();
        let entry = unseen.entry(key.clone()).or_default();
        entry.revision = entry.revision.max(revision);
    }

    /// Notes that the deletion of `object` began while working on `key`.
    pub fn note_deleted(&self, key: &ObjectKey, object: ObjectKey, uid: &str) {
        self.unseen().entry(key.clone()).or_default().deleted.push((object, uid.into()));
    }

    /// Notes that the server refused a change of the object at `key` because it is not as it was known at this
    /// version, or is gone. Whoever decided on it once more would do so wrongly, and as fast as it can.
    pub fn note_outdated(&self, key: &ObjectKey, resource_version: &str) {
        self.unseen().entry(key.clone()).or_default().outdated = Some(resource_version.into());
    }

    /// Returns when the informer has seen everything that was noted for `key`. It must be the one of the object at
    /// `key` if that was noted to be outdated.
    ///
    /// # Errors
    /// If that takes long. The key should be tried again.
    pub async fn seen<V: View>(&self, key: &ObjectKey, informer: &Informer<V>) -> Result<(), StaleCache> {
        let mut progress = informer.progress();
        let seen = progress.wait_for(|progress| self.has_seen(key, informer, progress.revision));
        let result = tokio::time::timeout(STALE_WAIT, seen).await;
        if let Ok(Ok(_)) = result {
            return Ok(());
        }
        // Somebody else may have refused it, and nothing will ever change; that it is waited for once is enough.
        if let Some(unseen) = self.unseen().get_mut(key) {
            unseen.outdated = None;
        }
        Err(StaleCache)
    }

    /// Forgets what has been seen of `key`. Whether that is all.
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
        // What is older than one's own writes is older than what was refused, too.
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
