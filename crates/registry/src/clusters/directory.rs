//! The clusters that exist, in memory.
//!
//! Every request looks its cluster up here, so a request for an unknown id reads nothing and keeps nothing. The
//! directory has no task: changes wait in a queue of the store, and a lookup applies those that have arrived. Changes
//! of this server are applied at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use coracle_store::{Entry, Guard, RangeRequest, Revision, Store, Watch, WatchEvent, WatchRequest};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::record::ClusterRecord;
use crate::error::{Error, Result};

/// All clusters with a record, which are all but the default one.
pub(crate) struct Directory {
    known: RwLock<Known>,
    /// Changes of records, once all have been read.
    changes: Mutex<Option<Watch>>,
    loaded: AtomicBool,
    /// One caller reads all records, others wait for it.
    loading: Semaphore,
}

/// A cluster with a record.
pub(crate) struct KnownCluster {
    pub(crate) record: ClusterRecord,
    /// The revision of the record.
    pub(crate) revision: Revision,
    /// Rejects commits after the cluster is deleted.
    pub(crate) guard: Arc<Guard>,
    /// Cancelled when the cluster is deleted.
    pub(crate) deleted: CancellationToken,
}

struct Known {
    clusters: HashMap<Arc<str>, Arc<KnownCluster>>,
    /// The watch has delivered every change up to here.
    seen: Revision,
    /// Changes of this server that the watch has not delivered yet, by the revision of the last one. Earlier events
    /// are stale and must not undo it.
    ahead: HashMap<Arc<str>, Revision>,
    /// Clusters that are gone and whose caches have not been freed yet.
    deleted: Vec<Arc<str>>,
}

impl Default for Directory {
    fn default() -> Self {
        let known = Known {
            clusters: HashMap::new(),
            seen: Revision::new(0),
            ahead: HashMap::new(),
            deleted: Vec::new(),
        };
        Self {
            known: RwLock::new(known),
            changes: Mutex::default(),
            loaded: AtomicBool::new(false),
            loading: Semaphore::new(1),
        }
    }
}

impl Directory {
    /// Whether all records have been read once.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Relaxed)
    }

    /// A cluster, unless it is being deleted.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<KnownCluster>> {
        self.read().clusters.get(id).filter(|known| !known.record.deleting).cloned()
    }

    /// A cluster, even one that is being deleted.
    pub(crate) fn get_any(&self, id: &str) -> Option<Arc<KnownCluster>> {
        self.read().clusters.get(id).cloned()
    }

    /// All clusters with a record, in the order of their ids.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, Arc<KnownCluster>)> {
        let known = self.read();
        let mut all: Vec<_> = known.clusters.iter().map(|(id, one)| (id.clone(), one.clone())).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// The clusters that were deleted since the last call, for callers that cache data of clusters.
    pub(crate) fn take_deleted(&self) -> Vec<Arc<str>> {
        if self.read().deleted.is_empty() {
            return Vec::new();
        }
        std::mem::take(&mut self.write().deleted)
    }

    /// Applies all changes up to now as far as they have arrived; reads all records if that is not possible.
    pub(crate) async fn refresh(&self, records: &Store) -> Result<()> {
        if self.catch_up(records) {
            return Ok(());
        }
        let _only_reader = self.loading.acquire().await.expect("the semaphore is never closed");
        if self.catch_up(records) {
            return Ok(());
        }
        let range = records.range(RangeRequest::default()).await?;
        let watch = records.watch(WatchRequest::default().from(range.revision.next())).await?;
        let mut found = HashMap::with_capacity(range.entries.len());
        for entry in &range.entries {
            let id: Arc<str> = String::from_utf8_lossy(entry.key()).into();
            found.insert(id.clone(), Arc::new(KnownCluster::of(records, &id, entry)?));
        }
        self.write().replace(found, range.revision);
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch);
        self.loaded.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Applies the changes that have arrived. False if all records have to be read.
    pub(crate) fn catch_up(&self, records: &Store) -> bool {
        // A caller that finds it locked need not wait: another one is applying the same changes.
        let Ok(mut changes) = self.changes.try_lock() else { return true };
        let Some(watch) = changes.as_mut() else { return false };
        while let Some(event) = watch.next_arrived() {
            if let Err(error) = event.map_err(Error::from).and_then(|event| self.apply(records, event)) {
                tracing::debug!(%error, "reading all cluster records again");
                *changes = None;
                return false;
            }
        }
        true
    }

    fn apply(&self, records: &Store, event: WatchEvent) -> Result<()> {
        let Some(key) = event.key() else { return Ok(()) };
        let (id, revision) = (String::from_utf8_lossy(key).into_owned(), event.revision());
        let found = match &event {
            WatchEvent::Put { entry, .. } => Some(KnownCluster::of(records, &id, entry)?),
            _ => None,
        };
        let mut known = self.write();
        known.seen = known.seen.max(revision);
        match known.ahead.get(&*id) {
            Some(ahead) if revision < *ahead => return Ok(()),
            Some(_) => drop(known.ahead.remove(&*id)),
            None => {}
        }
        known.set(id.into(), found);
        Ok(())
    }

    /// Applies a change that this server has committed, or has received from another watch; `None` for a deletion.
    pub(crate) fn committed(&self, id: &str, revision: Revision, found: Option<KnownCluster>) {
        let mut known = self.write();
        let is_newest = known.seen < revision && known.ahead.get(id).is_none_or(|ahead| *ahead < revision);
        if is_newest {
            let id: Arc<str> = id.into();
            known.ahead.insert(id.clone(), revision);
            known.set(id, found);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers of cached clusters and of unconfirmed changes.
    #[cfg(any(test, feature = "samples"))]
    pub(crate) fn len(&self) -> (usize, usize) {
        let known = self.read();
        (known.clusters.len(), known.ahead.len())
    }
}

impl Known {
    fn replace(&mut self, found: HashMap<Arc<str>, Arc<KnownCluster>>, at: Revision) {
        self.seen = at;
        let gone: Vec<_> = self.clusters.keys().filter(|id| !found.contains_key(*id)).cloned().collect();
        gone.into_iter().for_each(|id| self.set(id, None));
        // The records are read after all changes of this server that have been acknowledged.
        self.ahead.clear();
        for (id, one) in found {
            self.insert(id, one);
        }
    }

    fn set(&mut self, id: Arc<str>, found: Option<KnownCluster>) {
        match found {
            Some(found) => self.insert(id, Arc::new(found)),
            None => {
                if let Some(gone) = self.clusters.remove(&id) {
                    self.end(id, &gone);
                }
            }
        }
    }

    fn insert(&mut self, id: Arc<str>, mut found: Arc<KnownCluster>) {
        let known = self.clusters.get(&id).cloned();
        if let Some(known) = known {
            if known.record.uid == found.record.uid {
                // The same cluster with other limits: its watches continue, and its guard stays shared.
                let (guard, deleted) = (known.guard.clone(), known.deleted.clone());
                if !found.record.deleting {
                    guard.passed_at(found.revision);
                }
                let (record, revision) = (found.record.clone(), found.revision);
                found = Arc::new(KnownCluster { record, revision, guard, deleted });
            } else {
                self.end(id.clone(), &known);
            }
        }
        if found.record.deleting {
            self.end(id.clone(), &found);
        }
        self.clusters.insert(id, found);
    }

    fn end(&mut self, id: Arc<str>, gone: &KnownCluster) {
        gone.deleted.cancel();
        if !self.deleted.contains(&id) {
            self.deleted.push(id);
        }
    }
}

impl KnownCluster {
    pub(crate) fn of(records: &Store, id: &str, entry: &Entry) -> Result<Self> {
        Ok(Self::new(records, id, ClusterRecord::read(entry)?, entry.mod_revision()))
    }

    pub(crate) fn new(records: &Store, id: &str, record: ClusterRecord, revision: Revision) -> Self {
        let uid = record.uid.clone();
        let exists = move |entry: Option<&Entry>| {
            let found = entry.and_then(|entry| ClusterRecord::read(entry).ok());
            found.is_some_and(|found| found.uid == uid && !found.deleting)
        };
        let guard = records.guard(id, id, exists);
        if !record.deleting {
            guard.passed_at(revision);
        }
        Self { record, revision, guard, deleted: CancellationToken::new() }
    }
}
