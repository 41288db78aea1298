//! Changes of objects as they happen.

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

/// What to watch.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Which objects.
    pub selection: Selection,
    /// Changes after this revision.
    pub after: Revision,
}

/// An object as a change shows it.
///
/// It shares the stored bytes; the last state of an object that is gone is made when it is asked
/// for, because it has the revision of the change and not its own.
#[derive(Clone, Debug)]
pub struct ObjectState {
    entry: Entry,
    revision: Revision,
    /// Whose it is, if all clusters are watched.
    cluster: Option<Arc<str>>,
    cluster_deleted: bool,
}

impl ObjectState {
    /// As it is stored.
    pub fn of(entry: Entry) -> Self {
        Self { revision: entry.mod_revision(), entry, cluster: None, cluster_deleted: false }
    }

    /// Whose it is; told only by a watch of all clusters.
    pub fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    /// Whether the object is gone because its cluster was deleted, and not by a deletion that hides a base object in
    /// the cluster. Only a watch of all clusters tells, and only of base objects.
    pub fn is_cluster_deleted(&self) -> bool {
        self.cluster_deleted
    }

    /// What is stored; of an object that is gone, what was.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Its JSON.
    pub fn json(&self) -> Bytes {
        if self.revision == self.entry.mod_revision() {
            self.entry.value()
        } else {
            deleted(&self.entry, self.revision)
        }
    }
}

/// A change as a client sees it: with a selection, an object that begins to count appears and
/// one that no longer counts is gone.
#[derive(Clone, Debug)]
pub enum ObjectEvent {
    /// It is there now.
    Added(ObjectState),
    /// It has changed.
    Modified(ObjectState),
    /// It is gone; this was its last state.
    Deleted(ObjectState),
    /// Everything up to this revision has been delivered.
    Bookmark(Revision),
}

/// A running watch. Dropping it ends it.
pub struct ObjectWatch {
    watch: Watch,
    kind: KindRef,
    selection: Selection,
    dependency: Option<Box<Dependency>>,
    /// When the kind ceased to be what it was. What happened before is still told.
    ends_at: Option<Revision>,
    /// If all clusters are watched.
    all_clusters: Option<Bases>,
}

impl Cluster {
    /// Watches the objects of a kind, in one namespace or in all.
    ///
    /// # Errors
    /// If the revision is no longer kept.
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

    /// The next change; none if there are no more, because the kind is gone or has become another.
    /// Safe to drop before it is ready.
    ///
    /// # Errors
    /// If the watch has fallen so far behind that changes are gone.
    pub async fn next(&mut self) -> Result<Option<ObjectEvent>> {
        loop {
            let event = self.next_stored().await?;
            if self.ends_at.is_some_and(|end| is_after(&event, end)) {
                return Ok(None);
            }
            if let Some(event) = self.told(event)? {
                return Ok(Some(event));
            }
        }
    }

    /// The next change, if it is known to be there. If it is not, [`Self::next`] may still have one at once.
    ///
    /// # Errors
    /// As [`Self::next`] has them.
    pub fn try_next(&mut self) -> Option<Result<ObjectEvent>> {
        // Where the kind may go, only waiting for both tells what came first.
        while self.dependency.is_none() {
            let event = self.watch.try_next()?;
            let told = event.map_err(Into::into).and_then(|event| self.told(event));
            if let Some(told) = told.transpose() {
                return Some(told);
            }
        }
        None
    }

    /// What a change of what is stored is to the client; none if nothing.
    fn told(&self, event: WatchEvent) -> Result<Option<ObjectEvent>> {
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
            // Both may be dropped: the watches keep what they have not handed out.
            tokio::select! {
                biased;
                lost = dependency.lost(&*self.kind) => {
                    self.ends_at = Some(lost?);
                    // Else nobody would learn that nothing happened before the end.
                    self.watch.progress_handle().request();
                }
                event = self.watch.next() => return Ok(event?),
            }
        }
        Ok(self.watch.next().await?)
    }

    /// For asking for a bookmark.
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

/// Whether all that happened up to a revision has been told before this.
fn is_after(event: &WatchEvent, revision: Revision) -> bool {
    match event {
        WatchEvent::Progress { revision: reached } => *reached >= revision,
        event => event.revision() > revision,
    }
}
