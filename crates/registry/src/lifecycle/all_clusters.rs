//! Lists and watches of a kind in all clusters at once. Their number does not grow with the number of clusters.
//!
//! Bootstrap objects that no cluster has changed are not stored. They are listed once, in the pseudo cluster
//! [`ALL_CLUSTERS`]. A cluster that has changed or deleted one of them has an item of its own.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use coracle_store::{
    At, Base, Entry, RangeRequest, Revision, Store, WatchEvent, WatchRequest, is_whiteout, shown_over,
};

use super::select::Selection;
use super::watch::{ObjectWatch, WatchOptions};
use crate::bootstrap::{ClusterBase, Shared};
use crate::cluster::Registry;
use crate::clusters::Directory;
use crate::error::{Error, Result};
use crate::keys;
use crate::kind::Kind;
use crate::kind_ref::KindRef;

/// Stands for all clusters in paths, and for the cluster of unchanged bootstrap objects. No cluster can have this id.
pub const ALL_CLUSTERS: &str = "*";

/// The byte after the separator `/`, so that id and this byte sort after all keys of a cluster.
const BEHIND_CLUSTER: char = '0';

/// One page of a list of all clusters.
#[derive(Debug)]
pub struct AllClustersPage {
    /// The objects of the page.
    pub found: Found,
    /// The revision of the snapshot.
    pub revision: Revision,
    /// The token for the next page, if there is one.
    pub continue_token: Option<String>,
}

/// Objects of several clusters.
#[derive(Debug, Default)]
pub struct Found {
    /// The objects and their clusters.
    pub objects: Vec<(Arc<str>, Entry)>,
    /// Bootstrap objects that clusters have deleted: the cluster, and `namespace/name` or `name`.
    pub hidden: Vec<(Arc<str>, String)>,
}

/// The position of a list.
struct Place {
    /// The first key that has not been scanned.
    key: String,
    at: At,
}

impl Registry {
    /// Lists one page of the objects of a kind in all clusters: `limit` objects or a few more.
    ///
    /// # Errors
    /// If the revision is compacted, or the token is malformed.
    pub async fn list_all_clusters(
        &self,
        kind: &dyn Kind,
        selection: &Selection,
        limit: usize,
        continue_token: Option<&str>,
    ) -> Result<AllClustersPage> {
        let clusters = self.all_clusters();
        let prefix = keys::prefix(kind.declaration(), "");
        let (mut found, mut place) = match continue_token {
            None => {
                (self.beginnings(kind, selection, &prefix)?, Place { key: String::new(), at: At::Latest })
            }
            Some(token) => (Found::default(), read_token(token)?),
        };
        let limit = if limit == 0 { usize::MAX } else { limit };
        let mut continue_token = None;
        while let Some(id) = next_cluster(clusters, &mut place).await? {
            let own = format!("{id}/{prefix}");
            let start = place.key.clone().max(own.clone());
            let room = limit.saturating_sub(found.objects.len()).max(1);
            let request = RangeRequest {
                prefix: own.into_bytes(),
                start: Some(start.into_bytes()),
                limit: if room > limit { 0 } else { room },
                at: place.at,
                ..RangeRequest::default()
            };
            let range = clusters.range(request).await?;
            let last = range.entries.last().map(|entry| String::from_utf8_lossy(entry.key()).into_owned());
            for entry in range.entries {
                found.take(kind, selection, &id, entry)?;
            }
            place.key = match last.filter(|_| range.more) {
                Some(last) => format!("{last}\0"),
                None => format!("{id}{BEHIND_CLUSTER}"),
            };
            if found.objects.len() >= limit {
                continue_token = Some(token(&place));
                break;
            }
        }
        let revision = match place.at {
            At::Revision(revision) => revision,
            latest => clusters.count("", latest).await?.revision,
        };
        Ok(AllClustersPage { found, revision, continue_token })
    }

    /// Watches the objects of a kind in all clusters.
    ///
    /// # Errors
    /// If the revision is compacted.
    pub async fn watch_all_clusters(&self, kind: KindRef, options: WatchOptions) -> Result<ObjectWatch> {
        let prefix = keys::prefix(kind.declaration(), "");
        let from = options.after.next();
        if let Some(base) = self.base_of(ALL_CLUSTERS)
            && from <= base.revision()
            && !base.keys(prefix.as_bytes()).is_empty()
        {
            // A watch that starts before the bootstrap would never deliver the bootstrap objects.
            return Err(Error::Expired { requested: options.after, oldest: base.revision() });
        }
        let watch = self.all_clusters().watch(WatchRequest::in_any_scope(prefix).from(from)).await?;
        let bases = Bases { shared: self.shared_base(), directory: Arc::clone(self.directory()) };
        Ok(ObjectWatch::all_clusters(watch, kind, options.selection, bases))
    }

    /// The bootstrap objects of all clusters.
    fn beginnings(&self, kind: &dyn Kind, selection: &Selection, prefix: &str) -> Result<Found> {
        let mut found = Found::default();
        if let Some(base) = self.base_of(ALL_CLUSTERS) {
            let id: Arc<str> = ALL_CLUSTERS.into();
            for entry in base.keys(prefix.as_bytes()).iter().filter_map(|key| base.get(key)) {
                found.take(kind, selection, &id, entry)?;
            }
        }
        Ok(found)
    }

    fn base_of(&self, cluster: &str) -> Option<ClusterBase> {
        Some(ClusterBase::new(self.shared_base()?, cluster, ""))
    }
}

impl Found {
    fn take(&mut self, kind: &dyn Kind, selection: &Selection, id: &Arc<str>, entry: Entry) -> Result<()> {
        if is_whiteout(&entry) {
            let key = String::from_utf8_lossy(entry.key());
            let prefix = format!("{id}/{}", keys::prefix(kind.declaration(), ""));
            self.hidden.push((id.clone(), key.strip_prefix(&prefix).unwrap_or(&key).to_owned()));
        } else if selection.selects(kind, &entry)? {
            self.objects.push((id.clone(), entry));
        }
        Ok(())
    }
}

/// The cluster of the next key. After the first call all reads are at one revision.
async fn next_cluster(clusters: &Store, place: &mut Place) -> Result<Option<Arc<str>>> {
    let start = Some(place.key.clone().into_bytes());
    let range =
        clusters.range(RangeRequest { start, limit: 1, at: place.at, ..RangeRequest::default() }).await?;
    place.at = At::Revision(range.revision);
    let Some(first) = range.entries.first() else { return Ok(None) };
    let key = String::from_utf8_lossy(first.key());
    Ok(key.split_once('/').map(|(id, _)| id.into()))
}

/// The bootstrap objects of all clusters, for translating events of stored keys into events of their clusters.
pub(super) struct Bases {
    shared: Option<Arc<Shared>>,
    directory: Arc<Directory>,
}

/// An event in one cluster.
pub(super) struct Localized {
    /// None for progress events, which concern all clusters.
    pub(super) cluster: Option<Arc<str>>,
    pub(super) event: WatchEvent,
    /// The cluster has lost its own version of a bootstrap object. That happens only when the cluster is deleted: a
    /// deletion of the object leaves a whiteout.
    pub(super) cluster_deleted: bool,
}

impl Bases {
    /// Translates an event for its cluster; none if it is invisible there.
    pub(super) fn localize(&self, event: WatchEvent) -> Option<Localized> {
        let Some(key) = event.key() else {
            return Some(Localized { cluster: None, event, cluster_deleted: false });
        };
        let end = key.iter().position(|byte| *byte == b'/')?;
        let id = String::from_utf8_lossy(&key[..end]).into_owned();
        let event = event.in_scope(end + 1);
        let Some(base) = self.base_of(&id) else {
            return Some(Localized { cluster: Some(id.into()), event, cluster_deleted: false });
        };
        let (event, cluster_deleted) = match event {
            WatchEvent::Delete { key, revision, previous } if base.contains(&key) => {
                let previous = previous.filter(|entry| !is_whiteout(entry)).or_else(|| base.get(&key));
                (WatchEvent::Delete { key, revision, previous }, true)
            }
            event => (shown_over(&base, event)?, false),
        };
        Some(Localized { cluster: Some(id.into()), event, cluster_deleted })
    }

    fn base_of(&self, id: &str) -> Option<ClusterBase> {
        let known = self.directory.get_any(id);
        let uid = known.as_ref().map_or("", |known| &known.record.uid);
        Some(ClusterBase::new(self.shared.clone()?, id, uid))
    }
}

fn token(place: &Place) -> String {
    let At::Revision(revision) = place.at else { return String::new() };
    URL_SAFE_NO_PAD.encode(format!("{revision} {}", place.key))
}

fn read_token(token: &str) -> Result<Place> {
    let malformed = || Error::BadRequest("invalid continue token".to_owned());
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| malformed())?;
    let text = String::from_utf8(bytes).map_err(|_| malformed())?;
    let (revision, key) = text.split_once(' ').ok_or_else(malformed)?;
    let revision = revision.parse().map_err(|_| malformed())?;
    Ok(Place { key: key.to_owned(), at: At::Revision(Revision::new(revision)) })
}
