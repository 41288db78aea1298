//! The roles and bindings of one cluster, kept current by whoever asks.

use std::sync::{Mutex, PoisonError, RwLock};

use coracle_registry::lifecycle::GroupWatch;
use coracle_registry::{Cluster, Result};
use tokio::sync::Semaphore;

use super::GROUP;
use super::index::Index;

/// What is known of a cluster.
pub(super) struct Followed {
    index: RwLock<Index>,
    /// What tells of changes, once everything has been read.
    changes: Mutex<Option<GroupWatch>>,
    /// One reads everything, others wait for it.
    reading: Semaphore,
}

impl Default for Followed {
    fn default() -> Self {
        Self { index: RwLock::default(), changes: Mutex::default(), reading: Semaphore::new(1) }
    }
}

impl Followed {
    /// Looks into what is known.
    pub(super) fn read<T>(&self, look: impl FnOnce(&Index) -> T) -> T {
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
        let mut index = Index::default();
        let changes =
            cluster.follow_group(GROUP, |place, entry| index.note_entry(place, Some(entry))).await?;
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = index;
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner) = Some(changes);
        Ok(())
    }

    /// Takes note of what has arrived. False if that is not all there is to know.
    fn catch_up(&self) -> bool {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watch) = changes.as_mut() else { return false };
        let mut index = None;
        let outcome = watch.arrived(|place, entry| {
            let index =
                index.get_or_insert_with(|| self.index.write().unwrap_or_else(PoisonError::into_inner));
            index.note_entry(place, entry);
        });
        if outcome.is_err() {
            *changes = None;
        }
        outcome.is_ok()
    }
}
