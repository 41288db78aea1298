//! What there is in a cluster, of every kind: which kinds are served, who owns whom, how many there are.
//!
//! One watch of the metadata of each kind feeds it, for all controllers that have to know: the garbage
//! collector and quotas. Kinds come and go with definitions and APIServices; a change of those is what
//! makes it ask again which there are.

mod discovery;
mod follow;
mod graph;
mod identity;
mod kinds;
mod object;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use coracle_base::watched;
use coracle_runtime::{ClusterId, Manager, ObjectKey, Queue};
use kube::Client;

pub(crate) use graph::{Class, Existence, Item};
pub(crate) use identity::{Identity, Uid};
pub(crate) use kinds::{AGGREGATED_DISCOVERY, Kinds, ServedKind};
pub(crate) use object::{FOREGROUND, ORPHAN, Object};

use graph::{Graph, Source};

/// Which keys have to be looked at when something has changed.
type KeysOf = Box<dyn Fn(&Change) -> Vec<ObjectKey> + Send + Sync>;

/// What has happened.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Objects of a kind have come or changed in a namespace, which has no name for what is in none.
    Put { namespace: ObjectKey, resource: Resource },
    /// Objects of a kind are gone.
    Removed {
        namespace: ObjectKey,
        resource: Resource,
        /// How many there still are.
        left: u32,
    },
    /// There may be other kinds in a cluster.
    Kinds(ClusterId),
}

/// A kind, whatever its version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Resource {
    pub(crate) group: Box<str>,
    pub(crate) plural: Box<str>,
}

/// How many objects of a kind there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Exactly(u32),
    /// Every cluster begins with some; how many this one still has, it has to be asked.
    Shared,
}

/// What is known, for all clusters.
pub(crate) struct OwnershipGraph {
    client: Client,
    /// What stands for all clusters, if all are followed. Under it is what every cluster begins with.
    all_clusters: Option<ClusterId>,
    clusters: Mutex<HashMap<ClusterId, Known>>,
    sources: Mutex<Vec<Resource>>,
    /// Counts all lists.
    epochs: AtomicU32,
    /// Whether everything there was at the beginning has been seen.
    ready: watched::Sender<bool>,
    /// Who looks at what may have to go.
    collector: OnceLock<Queue<ObjectKey>>,
    listeners: RwLock<Vec<Listener>>,
}

/// Somebody who wants to know.
struct Listener {
    queue: Queue<ObjectKey>,
    delay: Duration,
    keys_of: KeysOf,
}

#[derive(Default)]
struct Known {
    kinds: Option<Arc<Kinds>>,
    graph: Graph,
    /// Of which kinds, of those that are followed here, all objects have been seen.
    listed: HashSet<Source>,
}

/// The one of this manager.
pub(crate) fn shared(manager: &mut Manager) -> Arc<OwnershipGraph> {
    manager.shared(|manager| {
        let ownership_graph = Arc::new(OwnershipGraph {
            client: manager.client().clone(),
            all_clusters: Some(manager.cluster().clone()).filter(ClusterId::is_all_clusters),
            clusters: Mutex::default(),
            sources: Mutex::default(),
            epochs: AtomicU32::default(),
            ready: watched::Sender::default(),
            collector: OnceLock::new(),
            listeners: RwLock::default(),
        });
        discovery::register(manager, &ownership_graph);
        ownership_graph
    })
}

impl OwnershipGraph {
    /// Whether everything there was at the beginning has been seen.
    pub(crate) fn ready(&self) -> watched::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Has everything put into `queue` whose owners have changed, under [`OwnershipGraph::key`].
    pub(crate) fn tell_collector(&self, queue: &Queue<ObjectKey>) {
        drop(self.collector.set(queue.clone()));
    }

    /// Has `keys_of` each change looked at after some time.
    pub(crate) fn tell(
        &self,
        queue: &Queue<ObjectKey>,
        delay: Duration,
        keys_of: impl Fn(&Change) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) {
        let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Listener { queue: queue.clone(), delay, keys_of: Box::new(keys_of) });
    }

    /// The kinds of a cluster, as far as is known; asked for if nothing is.
    pub(crate) async fn kinds(&self, cluster: &ClusterId) -> kube::Result<Arc<Kinds>> {
        if let Some(known) = self.with(cluster, |known| known.kinds.clone()) {
            return Ok(known);
        }
        self.refresh_kinds(cluster).await
    }

    /// The kinds of a cluster, as they are now. Those of all clusters are those of the default one.
    pub(crate) async fn refresh_kinds(&self, cluster: &ClusterId) -> kube::Result<Arc<Kinds>> {
        let plain = ClusterId::default();
        let asked = if cluster.is_all_clusters() { &plain } else { cluster };
        let kinds = Kinds::read(&self.client, asked).await?;
        // Most clusters have the same, which need not be held for each.
        let common = self.with(&plain, |known| known.kinds.clone()).filter(|common| **common == kinds);
        let kinds = common.unwrap_or_else(|| Arc::new(kinds));
        self.with(cluster, |known| known.kinds = Some(Arc::clone(&kinds)));
        Ok(kinds)
    }

    /// What the collector knows an object by.
    pub(crate) fn key(cluster: &ClusterId, uid: &Uid) -> ObjectKey {
        ObjectKey::cluster_wide(cluster.clone(), uid.to_string())
    }

    /// What is known of an object.
    pub(crate) fn item(&self, cluster: &ClusterId, uid: &Uid) -> Option<Item> {
        self.with(cluster, |known| known.graph.item(uid))
    }

    /// Who names an object as an owner.
    pub(crate) fn dependents(&self, cluster: &ClusterId, uid: &Uid) -> Vec<Arc<Identity>> {
        self.with(cluster, |known| known.graph.dependents(uid))
    }

    /// Whether one of the dependents of an object waits for dependents of its own.
    pub(crate) fn has_waiting_dependent(&self, cluster: &ClusterId, uid: &Uid) -> bool {
        self.with(cluster, |known| known.graph.has_waiting_dependent(uid))
    }

    /// Has the dependents looked at for which an object waits. Whether there are any.
    pub(crate) fn mark_blocking(&self, cluster: &ClusterId, uid: &Uid) -> bool {
        let blocking = self.with(cluster, |known| known.graph.mark_blocking(uid));
        self.flush(cluster);
        blocking
    }

    /// What an object that nobody has seen may be.
    pub(crate) fn names_of_unseen(&self, cluster: &ClusterId, uid: &Uid) -> Vec<Arc<Identity>> {
        self.with(cluster, |known| known.graph.names_of_unseen(uid))
    }

    /// What becomes of references that name owners so, by an object in `namespace`.
    pub(crate) fn classify<'a>(
        &self,
        cluster: &ClusterId,
        namespace: &str,
        named: impl Iterator<Item = &'a Identity>,
    ) -> Vec<Class> {
        self.with(cluster, |known| named.map(|named| known.graph.classify(namespace, named)).collect())
    }

    /// Notes that an object is gone, before anybody has told.
    pub(crate) fn note_gone(&self, cluster: &ClusterId, uid: &Uid) {
        self.with(cluster, |known| known.graph.remove(uid));
        self.flush(cluster);
    }

    /// Notes that there is no owner of this name.
    pub(crate) fn note_absent(&self, cluster: &ClusterId, absent: Identity) {
        self.with(cluster, |known| known.graph.note_absent(Arc::new(absent)));
        self.flush(cluster);
    }

    /// How many objects of a kind there are in a namespace; none if they have not been seen, or the kind is
    /// not followed.
    pub(crate) fn count(&self, namespace: &ObjectKey, resource: &Resource) -> Option<Count> {
        let source = self.sources().iter().position(|known| known == resource)?;
        let source = Source(u32::try_from(source).ok()?);
        // Each kind is followed in all clusters together or in this one alone.
        let look = |cluster: &ClusterId| {
            self.with(cluster, |known| {
                (known.listed.contains(&source), known.graph.count(source, namespace.name()))
            })
        };
        let (listed, count) = look(namespace.cluster());
        match self.all_clusters.as_ref().map(look) {
            Some((true, shared)) if shared > 0 => Some(Count::Shared),
            Some((true, _)) => Some(Count::Exactly(count)),
            _ => listed.then_some(Count::Exactly(count)),
        }
    }

    /// Hands what has to be looked at to the collector, as far as there is room. For its own workers, who
    /// must not wait for room; what is left is handed over by the next.
    pub(crate) fn flush(&self, cluster: &ClusterId) {
        let Some(queue) = self.collector.get() else { return };
        while let Some(uid) = self.with(cluster, |known| known.graph.next_dirty()) {
            if !queue.try_add(&Self::key(cluster, &uid)) {
                return self.with(cluster, |known| known.graph.mark_again(&uid));
            }
        }
    }

    /// Whether every cluster begins with an owner that is named so. It has another identity in each.
    pub(crate) fn is_shared(&self, named: &Identity) -> bool {
        let all_clusters = self.all_clusters.as_ref();
        all_clusters.is_some_and(|all_clusters| self.with(all_clusters, |known| known.graph.has_named(named)))
    }

    /// The clusters of which something is known, of those that are meant.
    fn clusters_of(&self, meant: &ClusterId) -> Vec<ClusterId> {
        if !meant.is_all_clusters() {
            return vec![meant.clone()];
        }
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    fn with<T>(&self, cluster: &ClusterId, look: impl FnOnce(&mut Known) -> T) -> T {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        let known = clusters.entry(cluster.clone()).or_default();
        let answer = look(known);
        // The kinds of the default cluster are those of most others, which have them from there.
        if known.graph.is_empty() && known.listed.is_empty() && *cluster != ClusterId::default() {
            clusters.remove(cluster);
        }
        answer
    }

    fn sources(&self) -> MutexGuard<'_, Vec<Resource>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
