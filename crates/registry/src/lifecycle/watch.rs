//! Changes of objects as they happen.

use bytes::Bytes;
use coracle_store::{Entry, ProgressHandle, Revision, Watch, WatchEvent, WatchRequest};

use super::list::Selection;
use super::tree;
use crate::cluster::Cluster;
use crate::encode::deleted;
use crate::error::Result;
use crate::keys;
use crate::kind::Kind;

/// What to watch.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Which objects.
    pub selection: Selection,
    /// Changes after this revision.
    pub after: Revision,
}

/// A change as a client sees it: with a selection, an object that begins to count appears and
/// one that no longer counts is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectEvent {
    /// It is there now.
    Added(Bytes),
    /// It has changed.
    Modified(Bytes),
    /// It is gone; this was its last state.
    Deleted(Bytes),
    /// Everything up to this revision has been delivered.
    Bookmark(Revision),
}

/// A running watch. Dropping it ends it.
pub struct ObjectWatch<'k> {
    watch: Watch,
    kind: &'k dyn Kind,
    selection: Selection,
}

impl Cluster {
    /// Watches the objects of a kind, in one namespace or in all.
    ///
    /// # Errors
    /// If the revision is no longer kept.
    pub async fn watch<'k>(
        &self,
        kind: &'k dyn Kind,
        namespace: &str,
        options: WatchOptions,
    ) -> Result<ObjectWatch<'k>> {
        let request = WatchRequest::prefix(keys::prefix(kind.declaration(), namespace));
        let watch = self.store.watch(request.from(options.after.next())).await?;
        Ok(ObjectWatch { watch, kind, selection: options.selection })
    }
}

impl ObjectWatch<'_> {
    /// The next change. Safe to drop before it is ready.
    ///
    /// # Errors
    /// If the watch has fallen so far behind that changes are gone.
    pub async fn next(&mut self) -> Result<ObjectEvent> {
        loop {
            let event = self.watch.next().await?;
            if let Some(event) = self.translate(event)? {
                return Ok(event);
            }
        }
    }

    /// For asking for a bookmark.
    pub fn bookmarks(&self) -> ProgressHandle {
        self.watch.progress_handle()
    }

    fn translate(&self, event: WatchEvent) -> Result<Option<ObjectEvent>> {
        Ok(match event {
            WatchEvent::Put { entry, previous } => {
                match (self.counts(Some(&entry))?, self.counts(previous.as_ref())?) {
                    (true, true) => Some(ObjectEvent::Modified(entry.value())),
                    (true, false) => Some(ObjectEvent::Added(entry.value())),
                    (false, true) => {
                        previous.map(|last| ObjectEvent::Deleted(deleted(&last, entry.mod_revision())))
                    }
                    (false, false) => None,
                }
            }
            WatchEvent::Delete { revision, previous, .. } => match self.counts(previous.as_ref())? {
                true => previous.map(|last| ObjectEvent::Deleted(deleted(&last, revision))),
                false => None,
            },
            WatchEvent::Progress { revision } => Some(ObjectEvent::Bookmark(revision)),
            _ => None,
        })
    }

    fn counts(&self, entry: Option<&Entry>) -> Result<bool> {
        let Some(entry) = entry else { return Ok(false) };
        Ok(self.selection.is_everything() || self.selection.matches(self.kind, &tree(entry)?))
    }
}
