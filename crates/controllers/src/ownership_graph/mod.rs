//! Metadata of all objects in a cluster: served kinds, owner references, and object counts.
//!
//! One metadata watch per kind feeds it for all controllers that need it: the garbage collector, the namespace
//! controller and quotas. Kinds come and go with CustomResourceDefinitions and APIServices; a change of those
//! triggers a new discovery.

mod consumer;
mod discovery;
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

/// Maps a change to the keys to enqueue.
type KeysOf = Box<dyn Fn(&Change) -> Vec<ObjectKey> + Send + Sync>;

/// A change of the objects in a cluster.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Objects of a kind were added or modified in a namespace; the name is empty for cluster-scoped objects.
    Put { namespace: ObjectKey, resource: Resource },
    /// Objects of a kind were deleted.
    Removed {
        namespace: ObjectKey,
        resource: Resource,
        /// Number of remaining objects.
        left: u32,
    },
    /// The served kinds of a cluster may have changed.
    Kinds(ClusterId),
}

/// A kind without its version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Resource {
    pub(crate) group: Box<str>,
    pub(crate) plural: Box<str>,
}

/// Number of objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Exactly(u32),
    /// Includes bootstrap objects; how many of them the cluster still has must be queried.
    Shared,
}

/// The graphs of all clusters.
pub(crate) struct OwnershipGraph {
    client: Client,
    /// The wildcard cluster, if all clusters are watched. Bootstrap objects are under it.
    all_clusters: Option<ClusterId>,
    clusters: Mutex<HashMap<ClusterId, ClusterGraph>>,
    sources: Mutex<Vec<Resource>>,
    /// Number of the last list.
    epochs: AtomicU32,
    /// True once the initial lists are complete.
    ready: watched::Sender<bool>,
    /// Queue of the garbage collector.
    collector: OnceLock<Queue<ObjectKey>>,
    listeners: RwLock<Vec<Listener>>,
}

/// A queue to which changes are reported.
struct Listener {
    queue: Queue<ObjectKey>,
    delay: Duration,
    keys_of: KeysOf,
}

#[derive(Default)]
struct ClusterGraph {
    kinds: Option<Arc<Kinds>>,
    graph: Graph,
    /// Kinds watched here whose initial list is complete.
    listed: HashSet<Source>,
}

/// Returns the manager's graph.
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
    /// True once the initial lists are complete.
    pub(crate) fn ready(&self) -> watched::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Sets the queue for objects whose owners have changed, by [`OwnershipGraph::key`].
    pub(crate) fn set_collector(&self, queue: &Queue<ObjectKey>) {
        drop(self.collector.set(queue.clone()));
    }

    /// Adds `keys_of` each change to a queue, after a delay.
    pub(crate) fn subscribe(
        &self,
        queue: &Queue<ObjectKey>,
        delay: Duration,
        keys_of: impl Fn(&Change) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) {
        let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Listener { queue: queue.clone(), delay, keys_of: Box::new(keys_of) });
    }

    /// The cached kinds of a cluster; read from the server if there are none.
    pub(crate) async fn kinds(&self, cluster: &ClusterId) -> kube::Result<Arc<Kinds>> {
        if let Some(state) = self.with(cluster, |state| state.kinds.clone()) {
            return Ok(state);
        }
        self.refresh_kinds(cluster).await
    }

    /// Reads the kinds of a cluster from the server. For the wildcard, reads those of the default cluster.
    pub(crate) async fn refresh_kinds(&self, cluster: &ClusterId) -> kube::Result<Arc<Kinds>> {
        let plain = ClusterId::default();
        let source = if cluster.is_all_clusters() { &plain } else { cluster };
        let kinds = Kinds::read(&self.client, source).await?;
        // Most clusters serve the same kinds, which are stored only once.
        let common = self.with(&plain, |state| state.kinds.clone()).filter(|common| **common == kinds);
        let kinds = common.unwrap_or_else(|| Arc::new(kinds));
        self.with(cluster, |state| state.kinds = Some(Arc::clone(&kinds)));
        Ok(kinds)
    }

    /// Key of an object in the collector's queue.
    pub(crate) fn key(cluster: &ClusterId, uid: &Uid) -> ObjectKey {
        ObjectKey::cluster_wide(cluster.clone(), uid.to_string())
    }

    /// A copy of an object's node.
    pub(crate) fn item(&self, cluster: &ClusterId, uid: &Uid) -> Option<Item> {
        self.with(cluster, |state| state.graph.item(uid))
    }

    /// Objects that reference this one as their owner.
    pub(crate) fn dependents(&self, cluster: &ClusterId, uid: &Uid) -> Vec<Arc<Identity>> {
        self.with(cluster, |state| state.graph.dependents(uid))
    }

    /// True if a dependent of the object waits for dependents of its own.
    pub(crate) fn has_waiting_dependent(&self, cluster: &ClusterId, uid: &Uid) -> bool {
        self.with(cluster, |state| state.graph.has_waiting_dependent(uid))
    }

    /// Marks the dependents that block the deletion of an object. True if there are any.
    pub(crate) fn mark_blocking(&self, cluster: &ClusterId, uid: &Uid) -> bool {
        let blocking = self.with(cluster, |state| state.graph.mark_blocking(uid));
        self.flush(cluster);
        blocking
    }

    /// Identities under which an unseen owner is referenced.
    pub(crate) fn names_of_unseen(&self, cluster: &ClusterId, uid: &Uid) -> Vec<Arc<Identity>> {
        self.with(cluster, |state| state.graph.names_of_unseen(uid))
    }

    /// Classifies references of an object in `namespace` to these owners.
    pub(crate) fn classify<'a>(
        &self,
        cluster: &ClusterId,
        namespace: &str,
        named: impl Iterator<Item = &'a Identity>,
    ) -> Vec<Class> {
        self.with(cluster, |state| named.map(|named| state.graph.classify(namespace, named)).collect())
    }

    /// Removes an object before its deletion is observed.
    pub(crate) fn mark_gone(&self, cluster: &ClusterId, uid: &Uid) {
        self.with(cluster, |state| state.graph.remove(uid));
        self.flush(cluster);
    }

    /// Records that no owner exists under this identity.
    pub(crate) fn mark_absent(&self, cluster: &ClusterId, absent: Identity) {
        self.with(cluster, |state| state.graph.mark_absent(Arc::new(absent)));
        self.flush(cluster);
    }

    /// Number of objects of a kind in a namespace; `None` if the initial list is not complete, or the kind is not
    /// watched.
    pub(crate) fn count(&self, namespace: &ObjectKey, resource: &Resource) -> Option<Count> {
        let source = self.sources().iter().position(|state| state == resource)?;
        let source = Source(u32::try_from(source).ok()?);
        // A kind is watched either in all clusters together or in this one alone.
        let look = |cluster: &ClusterId| {
            self.with(cluster, |state| {
                (state.listed.contains(&source), state.graph.count(source, namespace.name()))
            })
        };
        let (listed, count) = look(namespace.cluster());
        match self.all_clusters.as_ref().map(look) {
            Some((true, shared)) if shared > 0 => Some(Count::Shared),
            Some((true, _)) => Some(Count::Exactly(count)),
            _ => listed.then_some(Count::Exactly(count)),
        }
    }

    /// Adds dirty objects to the collector's queue as far as there is room. For the collector's own workers, which
    /// must not wait for room; the rest is added by the next call.
    pub(crate) fn flush(&self, cluster: &ClusterId) {
        let Some(queue) = self.collector.get() else { return };
        while let Some(uid) = self.with(cluster, |state| state.graph.next_dirty()) {
            if !queue.try_add(&Self::key(cluster, &uid)) {
                return self.with(cluster, |state| state.graph.mark_again(&uid));
            }
        }
    }

    /// True if the owner is a bootstrap object, which has a different uid in each cluster.
    pub(crate) fn is_shared(&self, named: &Identity) -> bool {
        let all_clusters = self.all_clusters.as_ref();
        all_clusters.is_some_and(|all_clusters| self.with(all_clusters, |state| state.graph.has_named(named)))
    }

    /// The clusters with state that the argument stands for.
    fn clusters_of(&self, meant: &ClusterId) -> Vec<ClusterId> {
        if !meant.is_all_clusters() {
            return vec![meant.clone()];
        }
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    fn with<T>(&self, cluster: &ClusterId, look: impl FnOnce(&mut ClusterGraph) -> T) -> T {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        let state = clusters.entry(cluster.clone()).or_default();
        let answer = look(state);
        // The kinds of the default cluster are kept, because most other clusters share them.
        if state.graph.is_empty() && state.listed.is_empty() && *cluster != ClusterId::default() {
            clusters.remove(cluster);
        }
        answer
    }

    fn sources(&self) -> MutexGuard<'_, Vec<Resource>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
