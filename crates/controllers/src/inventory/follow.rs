//! What a watch tells of one kind, noted in the graph.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use coracle_runtime::informer::Listed;
use coracle_runtime::{ClusterId, Consumer, ObjectKey};

use super::graph::Source;
use super::identity::{Type, Uid};
use super::object::Object;
use super::{Inventory, Known, ServedKind};

/// How many keys are taken from the graph at a time.
const BATCH: usize = 256;

/// Notes the objects of one kind, in one cluster or in all.
pub(super) struct OneKind {
    inventory: Arc<Inventory>,
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
        inventory: Arc<Inventory>,
        cluster: ClusterId,
        source: Source,
        kind: &ServedKind,
        ended: Arc<AtomicBool>,
    ) -> Self {
        let r#type = Arc::new(Type::new(&kind.api_version(), &kind.kind));
        Self { inventory, cluster, source, r#type, epoch: AtomicU32::default(), ended }
    }

    /// Changes the graph, and hands on what has to be looked at for that.
    async fn change(&self, cluster: &ClusterId, change: impl FnOnce(&mut Known)) {
        self.inventory.with(cluster, |known| {
            // Looked at under the lock: what is forgotten after it has ended must not come back.
            if !self.ended.load(Ordering::Relaxed) {
                change(known);
            }
        });
        self.inventory.hand_over(cluster).await;
    }
}

impl Consumer for OneKind {
    type Object = Object;
    /// Which list it is, since its first page.
    type Listing = Option<u32>;

    async fn page(&self, listing: &mut Option<u32>, page: Listed<Object>) {
        let epoch = *listing.get_or_insert_with(|| {
            let epoch = self.inventory.epochs.fetch_add(1, Ordering::Relaxed) + 1;
            self.epoch.store(epoch, Ordering::Relaxed);
            epoch
        });
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
        let Some(epoch) = listing else { return };
        for cluster in self.inventory.clusters_of(&self.cluster) {
            self.change(&cluster, |known| known.graph.sweep(self.source, epoch)).await;
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

impl Inventory {
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
}
