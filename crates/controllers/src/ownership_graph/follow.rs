//! What a watch tells of one kind, noted in the graph.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use coracle_runtime::informer::Listed;
use coracle_runtime::{ClusterId, Consumer, ObjectKey, Queue};

use super::graph::{Changed, Source};
use super::identity::{Type, Uid};
use super::object::Object;
use super::{Change, Known, Listener, OwnershipGraph, ServedKind};

/// How many keys are taken from the graph at a time.
const BATCH: usize = 256;

/// Notes the objects of one kind, in one cluster or in all.
pub(super) struct OneKind {
    ownership_graph: Arc<OwnershipGraph>,
    /// The cluster that is followed, or what stands for all.
    cluster: ClusterId,
    source: Source,
    r#type: Arc<Type>,
    /// The last list, so that what was not in it is known to be gone.
    epoch: AtomicU32,
    /// Whether nobody wants to know any more.
    ended: Arc<AtomicBool>,
}

impl OneKind {
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

    /// Changes the graph, and hands on what has to be looked at for that.
    async fn change(&self, cluster: &ClusterId, change: impl FnOnce(&mut Known)) {
        let changes = self.ownership_graph.with(cluster, |known| {
            // Looked at under the lock: what is forgotten after it has ended must not come back.
            if !self.ended.load(Ordering::Relaxed) {
                change(known);
            }
            known.graph.take_changes()
        });
        self.ownership_graph.hand_over(cluster).await;
        self.ownership_graph.tell_all(cluster, changes).await;
    }
}

impl Consumer for OneKind {
    type Object = Object;
    /// Which list it is, since its first page.
    type Listing = Option<u32>;

    async fn page(&self, listing: &mut Option<u32>, page: Listed<Object>) {
        let epoch = *listing.get_or_insert_with(|| self.begin_epoch());
        // Objects of a cluster come together.
        for some in page.objects.chunk_by(|(one, _), (other, _)| one.cluster() == other.cluster()) {
            let Some((first, _)) = some.first() else { continue };
            self.change(first.cluster(), |known| {
                for (_, object) in some {
                    known.graph.put(self.source, epoch, &self.r#type, object);
                }
            })
            .await;
        }
    }

    async fn complete(&self, listing: Option<u32>) {
        // Where there is nothing there was no page.
        let epoch = listing.unwrap_or_else(|| self.begin_epoch());
        for cluster in self.ownership_graph.clusters_of(&self.cluster) {
            self.change(&cluster, |known| known.graph.sweep(self.source, epoch)).await;
        }
        let mut is_first = false;
        self.change(&self.cluster, |known| is_first = known.listed.insert(self.source)).await;
        // At the beginning nobody counts before all is known.
        if is_first && *self.ownership_graph.ready.borrow() {
            for cluster in self.ownership_graph.clusters_of(&self.cluster) {
                self.ownership_graph.announce(&Change::Kinds(cluster)).await;
            }
        }
    }

    async fn put(&self, key: ObjectKey, object: Object) {
        let epoch = self.epoch.load(Ordering::Relaxed);
        self.change(key.cluster(), |known| known.graph.put(self.source, epoch, &self.r#type, &object)).await;
    }

    async fn remove(&self, key: ObjectKey, object: Object) {
        self.change(key.cluster(), |known| known.graph.remove(&Uid::new(&object.metadata.uid))).await;
    }
}

impl OwnershipGraph {
    /// Hands what has to be looked at to the collector, and waits for room. For those who are no workers of
    /// its own.
    pub(super) async fn hand_over(&self, cluster: &ClusterId) {
        let Some(queue) = self.collector.get() else { return };
        loop {
            let batch: Vec<Uid> = self
                .with(cluster, |known| std::iter::from_fn(|| known.graph.next_dirty()).take(BATCH).collect());
            if batch.is_empty() {
                return;
            }
            for uid in batch {
                queue.add(Self::key(cluster, &uid)).await;
            }
        }
    }

    /// Tells whoever wants to know what has changed.
    async fn tell_all(&self, cluster: &ClusterId, changes: Vec<Changed>) {
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

    /// Collected first: no lock is held while a full queue is waited for.
    fn keys_for_queues(&self, change: &Change) -> Vec<(Queue<ObjectKey>, Duration, Vec<ObjectKey>)> {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        let keys = listeners.iter().map(|listener| {
            let Listener { queue, delay, keys_of } = listener;
            (queue.clone(), *delay, keys_of(change))
        });
        keys.filter(|(.., keys)| !keys.is_empty()).collect()
    }
}
