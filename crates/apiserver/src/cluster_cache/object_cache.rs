//! An index of some objects of one cluster, kept current by the requests that use it.
//!
//! It needs no task: the store appends every change to the queue of a watch, and each request first applies the changes
//! that have arrived. The store ends a watch whose queue no request has read for long; the next request then lists all
//! objects again.

use std::sync::{Mutex, PoisonError, RwLock};

use coracle_registry::lifecycle::{GroupWatch, Place, tree};
use coracle_registry::{Cluster, Entry, Kind, Result};
use serde_json::Value;
use tokio::sync::Semaphore;

/// An index of objects, built from a list and updated by a watch.
pub(crate) trait ObjectIndex: Default + Send + Sync + 'static {
    /// The objects to list and watch.
    const SOURCES: &'static [Source];

    /// Applies a change: `object` is the new state, None if it was deleted.
    fn note(&mut self, place: Place<'_>, object: Option<&Value>);

    /// Like [`ObjectIndex::note`], for a stored object. An object that cannot be decoded counts as deleted: an
    /// unreadable role allows nothing.
    fn note_entry(&mut self, place: Place<'_>, entry: Option<&Entry>) {
        let object = entry.and_then(|entry| match tree(entry) {
            Ok(object) => Some(object),
            Err(error) => {
                let Place { plural, namespace, name } = place;
                tracing::error!(%error, plural, namespace, name, "ignoring a stored object that cannot be decoded");
                None
            }
        });
        self.note(place, object.as_ref());
    }
}

/// Objects to list and watch for an index.
pub(crate) enum Source {
    /// All objects of an API group.
    Group(&'static str),
    /// All objects of a kind.
    Kind(&'static dyn Kind),
}

/// The index of one cluster, with the watches that update it.
pub(crate) struct ObjectCache<I> {
    index: RwLock<I>,
    /// One watch for each source. None until the index is complete, and after a watch has ended.
    changes: Mutex<Option<Vec<GroupWatch>>>,
    /// Held by the request that lists; others wait for it.
    listing: Semaphore,
}

impl<I: ObjectIndex> Default for ObjectCache<I> {
    fn default() -> Self {
        Self { index: RwLock::default(), changes: Mutex::default(), listing: Semaphore::new(1) }
    }
}

impl<I: ObjectIndex> ObjectCache<I> {
    /// Calls `look` with the current index.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&I) -> T) -> T {
        look(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Applies all changes that have arrived. Lists the objects if there is no watch, or it has ended.
    pub(crate) async fn refresh(&self, cluster: &Cluster) -> Result<()> {
        if self.catch_up() {
            return Ok(());
        }
        let _only_lister = self.listing.acquire().await.expect("the semaphore is never closed");
        if self.catch_up() {
            return Ok(());
        }
        let mut index = I::default();
        let mut changes = Vec::with_capacity(I::SOURCES.len());
        for source in I::SOURCES {
            let tell = |place: Place<'_>, entry: &Entry| index.note_entry(place, Some(entry));
            changes.push(match source {
                Source::Group(group) => cluster.follow_group(group, tell).await?,
                Source::Kind(kind) => cluster.follow_kind(*kind, tell).await?,
            });
        }
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = index;
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner) = Some(changes);
        Ok(())
    }

    /// Applies all changes that have arrived, without waiting. Returns false if the index may lack some; then the
    /// objects must be listed.
    pub(crate) fn catch_up(&self) -> bool {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watches) = changes.as_mut() else { return false };
        let mut index = None;
        let mut note = |place: Place<'_>, entry: Option<&Entry>| {
            let index =
                index.get_or_insert_with(|| self.index.write().unwrap_or_else(PoisonError::into_inner));
            index.note_entry(place, entry);
        };
        let outcome = watches.iter_mut().try_for_each(|watch| watch.arrived(&mut note));
        if outcome.is_err() {
            *changes = None;
        }
        outcome.is_ok()
    }
}

#[cfg(test)]
impl<I> ObjectCache<I> {
    pub(crate) fn replace(&self, index: I) {
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = index;
    }
}
