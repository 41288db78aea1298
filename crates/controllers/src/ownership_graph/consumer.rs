//! Feeds the watch of one kind into the graph.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use coracle_runtime::informer::Listed;
use coracle_runtime::{ClusterId, Consumer, ObjectKey, Queue};

use super::graph::{Changed, Source};
use super::identity::{Type, Uid};
use super::object::Object;
use super::{Change, ClusterGraph, Listener, OwnershipGraph, ServedKind};

/// Number of keys taken from the graph at once.
const BATCH: usize = 256;

/// Adds the objects of one kind to the graph, in one cluster or in all.
pub(super) struct KindConsumer {
    ownership_graph: Arc<OwnershipGraph>,
    /// The watched cluster, or the wildcard for all clusters.
    cluster: ClusterId,
    source: Source,
    r#type: Arc<Type>,
    /// Number of the last list, to detect objects missing in it.
    epoch: AtomicU32,
    /// True once the watch is stopped.
    ended: Arc<AtomicBool>,
}

impl KindConsumer {
    pub(super) fn new(
        ownership_graph: Arc<OwnershipGraph>,
        cluster: ClusterId,
        source: Source,
        kind: &ServedKind,
        ended: Arc<AtomicBool>,
    ) -> Self {
        let r#type = Arc::new(Type::new(&kind.api_version(), &kind.kind));
        Self { ownership_graph, cluster, source, r#type, epoch: AtomicU32::default(), ended }
    }

    fn begin_epoch(&self) -> u32 {
        let epoch = self.ownership_graph.epochs.fetch_add(1, Ordering::Relaxed) + 1;
        self.epoch.store(epoch, Ordering::Relaxed);
        epoch
    }

    /// Changes the graph, then enqueues the affected keys.
    async fn change(&self, cluster: &ClusterId, change: impl FnOnce(&mut ClusterGraph)) {
        let changes = self.ownership_graph.with(cluster, |state| {
            // Checked under the lock, so that objects are not added after the watch is stopped.
            if !self.ended.load(Ordering::Relaxed) {
                change(state);
            }
            state.graph.take_changes()
        });
        self.ownership_graph.enqueue_dirty(cluster).await;
        self.ownership_graph.announce_all(cluster, changes).await;
    }
}

impl Consumer for KindConsumer {
    type Object = Object;
    /// Epoch of the list, set by its first page.
    type Listing = Option<u32>;

    async fn page(&self, listing: &mut Option<u32>, page: Listed<Object>) {
        let epoch = *listing.get_or_insert_with(|| self.begin_epoch());
        // The objects of a cluster are adjacent.
        for some in page.objects.chunk_by(|(one, _), (other, _)| one.cluster() == other.cluster()) {
            let Some((first, _)) = some.first() else { continue };
            self.change(first.cluster(), |state| {
                for (_, object) in some {
                    state.graph.put(self.source, epoch, &self.r#type, object);
                }
            })
            .await;
        }
    }

    async fn complete(&self, listing: Option<u32>) {
        // An empty list has no page.
        let epoch = listing.unwrap_or_else(|| self.begin_epoch());
        for cluster in self.ownership_graph.clusters_of(&self.cluster) {
            self.change(&cluster, |state| state.graph.sweep(self.source, epoch)).await;
        }
        let mut is_first = false;
        self.change(&self.cluster, |state| is_first = state.listed.insert(self.source)).await;
        // Before the graph is ready, nothing is counted.
        if is_first && *self.ownership_graph.ready.borrow() {
            for cluster in self.ownership_graph.clusters_of(&self.cluster) {
                self.ownership_graph.announce(&Change::Kinds(cluster)).await;
            }
        }
    }

    async fn put(&self, key: ObjectKey, object: Object) {
        let epoch = self.epoch.load(Ordering::Relaxed);
        self.change(key.cluster(), |state| state.graph.put(self.source, epoch, &self.r#type, &object)).await;
    }

    async fn remove(&self, key: ObjectKey, object: Object) {
        self.change(key.cluster(), |state| state.graph.remove(&Uid::new(&object.metadata.uid))).await;
    }
}

impl OwnershipGraph {
    /// Adds dirty objects to the collector's queue, waiting for room. Not for the collector's own workers.
    pub(super) async fn enqueue_dirty(&self, cluster: &ClusterId) {
        let Some(queue) = self.collector.get() else { return };
        loop {
            let batch: Vec<Uid> = self
                .with(cluster, |state| std::iter::from_fn(|| state.graph.next_dirty()).take(BATCH).collect());
            if batch.is_empty() {
                return;
            }
            for uid in batch {
                queue.add(Self::key(cluster, &uid)).await;
            }
        }
    }

    /// Announces changes to all listeners.
    async fn announce_all(&self, cluster: &ClusterId, changes: Vec<Changed>) {
        for Changed { source, namespace, left } in changes {
            let Some(resource) = self.sources().get(source.0 as usize).cloned() else { continue };
            let namespace = ObjectKey::cluster_wide(cluster.clone(), namespace);
            let change = match left {
                Some(left) => Change::Removed { namespace, resource, left },
                None => Change::Put { namespace, resource },
            };
            self.announce(&change).await;
        }
    }

    pub(super) async fn announce(&self, change: &Change) {
        for (queue, delay, keys) in self.keys_for_queues(change) {
            for key in keys {
                match delay {
                    Duration::ZERO => queue.add(key).await,
                    delay => queue.add_after(key, delay).await,
                }
            }
        }
    }

    /// Collected first, so that no lock is held while a full queue is waited for.
    fn keys_for_queues(&self, change: &Change) -> Vec<(Queue<ObjectKey>, Duration, Vec<ObjectKey>)> {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        let keys = listeners.iter().map(|listener| {
            let Listener { queue, delay, keys_of } = listener;
            (queue.clone(), *delay, keys_of(change))
        });
        keys.filter(|(.., keys)| !keys.is_empty()).collect()
    }
}
