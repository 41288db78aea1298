//! Watching objects.

use std::sync::Arc;

use bytes::Bytes;
use coracle_store::{Entry, ProgressHandle, Revision, Watch, WatchEvent, WatchRequest};

use super::all_clusters::{Bases, Localized};
use super::dependency::Dependency;
use super::list::within;
use super::select::Selection;
use crate::cluster::Cluster;
use crate::encode::deleted;
use crate::error::Result;
use crate::keys;
use crate::kind_ref::KindRef;

/// Options of a watch.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Label and field selectors.
    pub selection: Selection,
    /// The watch delivers changes after this revision.
    pub after: Revision,
}

/// The state of an object in a watch event.
///
/// It shares the stored bytes. The last state of a deleted object is encoded on demand, because it has the revision
/// of the deletion and not its own.
#[derive(Clone, Debug)]
pub struct ObjectState {
    entry: Entry,
    revision: Revision,
    /// The cluster of the object, in a watch of all clusters.
    cluster: Option<Arc<str>>,
    cluster_deleted: bool,
}

impl ObjectState {
    /// The stored state.
    pub fn of(entry: Entry) -> Self {
        Self { revision: entry.mod_revision(), entry, cluster: None, cluster_deleted: false }
    }

    /// The cluster of the object; set only in a watch of all clusters.
    pub fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    /// Whether the object is gone because its cluster was deleted, rather than by a deletion that hides a bootstrap
    /// object in the cluster. Set only for bootstrap objects in a watch of all clusters.
    pub fn is_cluster_deleted(&self) -> bool {
        self.cluster_deleted
    }

    /// The stored entry; of a deleted object, the last one.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The JSON of the object.
    pub fn json(&self) -> Bytes {
        if self.revision == self.entry.mod_revision() {
            self.entry.value()
        } else {
            deleted(&self.entry, self.revision)
        }
    }
}

/// A watch event as the client sees it: with a selector, an object that begins to match is added and one that no
/// longer matches is deleted.
#[derive(Clone, Debug)]
pub enum ObjectEvent {
    /// The object exists now.
    Added(ObjectState),
    /// The object has changed.
    Modified(ObjectState),
    /// The object is gone; this was its last state.
    Deleted(ObjectState),
    /// Everything up to this revision has been delivered.
    Bookmark(Revision),
}

/// A running watch. Dropping it stops it.
pub struct ObjectWatch {
    watch: Watch,
    kind: KindRef,
    selection: Selection,
    dependency: Option<Box<Dependency>>,
    /// Revision at which the definition of the kind changed. Earlier events are still delivered.
    ends_at: Option<Revision>,
    /// Set if all clusters are watched.
    all_clusters: Option<Bases>,
}

impl Cluster {
    /// Watches the objects of a kind, in one namespace or in all.
    ///
    /// # Errors
    /// If the revision is compacted.
    pub async fn watch(
        &self,
        kind: impl Into<KindRef>,
        namespace: &str,
        options: WatchOptions,
    ) -> Result<ObjectWatch> {
        let kind = kind.into();
        let declaration = kind.declaration();
        let prefix = within(declaration, namespace, &options.selection)
            .unwrap_or_else(|| keys::prefix(declaration, namespace));
        let request = WatchRequest::prefix(prefix);
        let watch = self.store.watch(request.from(options.after.next())).await?;
        let dependency = Dependency::follow(&self.store, &*kind).await?;
        let selection = options.selection;
        Ok(ObjectWatch { watch, kind, selection, dependency, ends_at: None, all_clusters: None })
    }
}

impl ObjectWatch {
    pub(super) fn all_clusters(watch: Watch, kind: KindRef, selection: Selection, bases: Bases) -> Self {
        Self { watch, kind, selection, dependency: None, ends_at: None, all_clusters: Some(bases) }
    }

    /// The next event; none if the watch has ended because the definition of the kind was removed or has changed.
    /// Cancellation safe.
    ///
    /// # Errors
    /// If the watch has fallen so far behind that events were dropped.
    pub async fn next(&mut self) -> Result<Option<ObjectEvent>> {
        loop {
            let event = self.next_stored().await?;
            if self.ends_at.is_some_and(|end| is_after(&event, end)) {
                return Ok(None);
            }
            if let Some(event) = self.to_client_event(event)? {
                return Ok(Some(event));
            }
        }
    }

    /// The next event, if one is certainly available. Otherwise [`Self::next`] may still return one at once.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn try_next(&mut self) -> Option<Result<ObjectEvent>> {
        // For a custom kind, only waiting for both watches shows which event came first.
        while self.dependency.is_none() {
            let event = self.watch.try_next()?;
            let event = event.map_err(Into::into).and_then(|event| self.to_client_event(event));
            if let Some(event) = event.transpose() {
                return Some(event);
            }
        }
        None
    }

    /// Translates an event of the store into one for the client; none if the client does not see it.
    fn to_client_event(&self, event: WatchEvent) -> Result<Option<ObjectEvent>> {
        match &self.all_clusters {
            Some(bases) => match bases.localize(event) {
                Some(Localized { cluster, event, cluster_deleted }) => {
                    self.translate(event, cluster, cluster_deleted)
                }
                None => Ok(None),
            },
            None => self.translate(event, None, false),
        }
    }

    async fn next_stored(&mut self) -> Result<WatchEvent> {
        if let (Some(dependency), None) = (&mut self.dependency, self.ends_at) {
            // Both branches are cancellation safe: the watches keep undelivered events.
            tokio::select! {
                biased;
                lost = dependency.lost(&*self.kind) => {
                    self.ends_at = Some(lost?);
                    // Without this, no progress event would show that nothing happened before the end.
                    self.watch.progress_handle().request();
                }
                event = self.watch.next() => return Ok(event?),
            }
        }
        Ok(self.watch.next().await?)
    }

    /// A handle for requesting bookmarks.
    pub fn bookmarks(&self) -> ProgressHandle {
        self.watch.progress_handle()
    }

    fn translate(
        &self,
        event: WatchEvent,
        cluster: Option<Arc<str>>,
        cluster_deleted: bool,
    ) -> Result<Option<ObjectEvent>> {
        let there = |entry: Entry| ObjectState { cluster: cluster.clone(), ..ObjectState::of(entry) };
        let gone = |last: Option<Entry>, revision| {
            let cluster = cluster.clone();
            last.map(|entry| ObjectEvent::Deleted(ObjectState { entry, revision, cluster, cluster_deleted }))
        };
        Ok(match event {
            WatchEvent::Put { entry, previous } => {
                match (self.counts(Some(&entry))?, self.counts(previous.as_ref())?) {
                    (true, true) => Some(ObjectEvent::Modified(there(entry))),
                    (true, false) => Some(ObjectEvent::Added(there(entry))),
                    (false, true) => gone(previous, entry.mod_revision()),
                    (false, false) => None,
                }
            }
            WatchEvent::Delete { revision, previous, .. } => match self.counts(previous.as_ref())? {
                true => gone(previous, revision),
                false => None,
            },
            WatchEvent::Progress { revision } => Some(ObjectEvent::Bookmark(revision)),
            _ => None,
        })
    }

    fn counts(&self, entry: Option<&Entry>) -> Result<bool> {
        entry.map_or(Ok(false), |entry| self.selection.selects(&*self.kind, entry))
    }
}

/// Whether all events up to a revision precede this one.
fn is_after(event: &WatchEvent, revision: Revision) -> bool {
    match event {
        WatchEvent::Progress { revision: reached } => *reached >= revision,
        event => event.revision() > revision,
    }
}
