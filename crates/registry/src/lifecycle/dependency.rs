//! The object that defines a kind, watched while there are watches of the kind's objects.

use coracle_store::{Entry, Revision, Store, Watch, WatchEvent, WatchRequest};

use crate::error::Result;
use crate::kind::Kind;

/// A watch of the object that defines a kind.
pub(super) struct Dependency {
    key: String,
    watch: Watch,
    /// Set if the definition had changed before the watch began.
    lost: Option<Revision>,
}

impl Dependency {
    /// Watches the object that defines a kind; none for built-in kinds.
    pub(super) async fn follow(store: &Store, kind: &dyn Kind) -> Result<Option<Box<Self>>> {
        let Some(key) = kind.depends_on() else { return Ok(None) };
        // The definition may have changed since the kind was looked up.
        let found = store.get(&key).await?;
        let lost = (!holds(kind, found.entry.as_ref())).then_some(found.revision);
        let request = WatchRequest::prefix(key.as_bytes()).from(found.revision.next());
        Ok(Some(Box::new(Self { watch: store.watch(request).await?, key, lost })))
    }

    /// Waits until the definition changes, and returns the revision of the change. Cancellation safe.
    pub(super) async fn lost(&mut self, kind: &dyn Kind) -> Result<Revision> {
        if let Some(revision) = self.lost {
            return Ok(revision);
        }
        loop {
            let event = self.watch.next().await?;
            // Other keys may begin with this one.
            let is_lost = match &event {
                WatchEvent::Put { entry, .. } => {
                    entry.key() == self.key.as_bytes() && !holds(kind, Some(entry))
                }
                WatchEvent::Delete { key, .. } => key == self.key.as_bytes(),
                _ => false,
            };
            if is_lost {
                return Ok(event.revision());
            }
        }
    }
}

fn holds(kind: &dyn Kind, entry: Option<&Entry>) -> bool {
    entry.is_some_and(|entry| kind.holds_with(entry))
}
