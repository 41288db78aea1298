//! What is made of objects of one cluster for questions, kept current by whoever asks.
//!
//! No task is needed: every change is in a queue of the store, and whoever asks takes first what has
//! arrived. A queue that nobody has looked into for long is given up by the store, and all is read anew.

use std::sync::{Mutex, PoisonError, RwLock};

use coracle_registry::lifecycle::{GroupWatch, Place, tree};
use coracle_registry::{Cluster, Entry, Kind, Result};
use serde_json::Value;
use tokio::sync::Semaphore;

/// What is made of objects for questions.
pub(super) trait Arranged: Default + Send + Sync + 'static {
    /// Of which objects.
    const SOURCES: &'static [Source];

    /// Takes note of an object, or of none where it is gone.
    fn note(&mut self, place: Place<'_>, object: Option<&Value>);

    /// Takes note of what is stored, or of nothing where it is gone. What cannot be read allows nothing.
    fn note_entry(&mut self, place: Place<'_>, entry: Option<&Entry>) {
        let object = entry.and_then(|entry| match tree(entry) {
            Ok(object) => Some(object),
            Err(error) => {
                tracing::error!(%error, "an object that says who may do what cannot be read and allows nothing");
                None
            }
        });
        self.note(place, object.as_ref());
    }
}

/// Where objects are from.
pub(super) enum Source {
    /// All of an API group.
    Group(&'static str),
    /// All of a kind.
    Kind(&'static dyn Kind),
}

/// What is known of a cluster.
pub(super) struct Followed<T> {
    index: RwLock<T>,
    /// What tells of changes of each source, once everything has been read.
    changes: Mutex<Option<Vec<GroupWatch>>>,
    /// One reads everything, others wait for it.
    reading: Semaphore,
}

impl<T: Arranged> Default for Followed<T> {
    fn default() -> Self {
        Self { index: RwLock::default(), changes: Mutex::default(), reading: Semaphore::new(1) }
    }
}

impl<I: Arranged> Followed<I> {
    /// Looks into what is known.
    pub(super) fn read<T>(&self, look: impl FnOnce(&I) -> T) -> T {
        look(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes note of what has changed; reads everything if nothing is known yet, or no longer.
    pub(super) async fn refresh(&self, cluster: &Cluster) -> Result<()> {
        if self.catch_up() {
            return Ok(());
        }
        let _only_reader = self.reading.acquire().await.expect("nobody closes it");
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

    /// Takes note of what has arrived. False if that is not all there is to know.
    fn catch_up(&self) -> bool {
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
