//! Storage usage of each cluster, to enforce its limits.
//!
//! The usage of a cluster is computed when it is first needed and then follows a watch of all clusters. No task reads
//! the watch: callers apply the events that have arrived. Commits of this server count at once, before the watch
//! delivers them, and writes in flight are reserved, so that on one server no cluster exceeds its limits. Servers
//! that share an etcd see each other's writes some milliseconds later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_store::{
    At, Entry, Error as StoreError, RangeRequest, Revision, Store, Watch, WatchEvent, WatchRequest,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::ClusterLimits;
use crate::error::{Error, Result};

/// Number of clusters whose usage is cached, at about 200 bytes each. The least recently used is evicted, and
/// computed again when needed.
const MAX_CLUSTERS: usize = 16_384;

/// Maximum number of events applied at a time. Beyond it all usages are dropped and computed again when needed, so
/// that a write after a long pause does not wait for the events of an hour.
const MAX_EVENTS: usize = 50_000;

/// Number of objects read at a time when a usage is computed.
const PAGE_OBJECTS: usize = 1_000;

/// Number of attempts to compute a usage when history is compacted or the watch is lost meanwhile.
const MAX_ATTEMPTS: u32 = 8;

/// Storage usage of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUsage {
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Stored objects, and addresses and ports that are allocated to objects.
    pub objects: u64,
}

/// The change of usage by a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    pub(crate) bytes: i64,
    pub(crate) objects: i64,
}

impl Growth {
    /// An added entry with this many bytes of key and value.
    pub(crate) fn added(bytes: usize) -> Self {
        Self { bytes: signed(bytes), objects: 1 }
    }

    pub(crate) fn removed(bytes: usize) -> Self {
        Self { bytes: -signed(bytes), objects: -1 }
    }

    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            objects: self.objects.saturating_add(other.objects),
        }
    }

    fn minus(self, other: Self) -> Self {
        self.plus(Self { bytes: -other.bytes, objects: -other.objects })
    }

    fn is_growth(self) -> bool {
        self.bytes > 0 || self.objects > 0
    }
}

/// Cached usage of recently used clusters.
pub(crate) struct Usage {
    tracked: Mutex<Tracked>,
    /// One caller starts the watch, others wait for it.
    starting: Semaphore,
}

struct Tracked {
    watch: Option<Watch>,
    /// All events up to this revision have been applied.
    seen: Revision,
    clusters: HashMap<Arc<str>, Count>,
    /// A counter of uses, to find the least recently used cluster.
    uses: u64,
}

struct Count {
    total: Growth,
    /// Buffered events while the sum is read: those after the revision of the sum are added to it.
    buffered: Option<Vec<(Revision, Growth)>>,
    /// Commits of this server that the watch has not delivered yet.
    unseen: Vec<(Revision, Growth)>,
    /// Writes in flight.
    reserved: Growth,
    last_used: u64,
    /// One caller computes the sum, others wait for it.
    summing: Arc<Semaphore>,
}

impl Default for Usage {
    fn default() -> Self {
        let (seen, clusters) = (Revision::new(0), HashMap::new());
        let tracked = Tracked { watch: None, seen, clusters, uses: 0 };
        Self { tracked: Mutex::new(tracked), starting: Semaphore::new(1) }
    }
}

impl Usage {
    /// The usage of a cluster. `clusters` is the scope of all clusters.
    pub(crate) async fn measure(&self, clusters: &Store, id: &str) -> Result<ClusterUsage> {
        self.load(clusters, id, |count, seen| count.current(seen)).await
    }

    /// Reserves quota for a write, or rejects it if the cluster would exceed a limit. Writes that only free storage
    /// always pass; they are counted when they are committed.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        clusters: &Store,
        id: &Arc<str>,
        limits: &ClusterLimits,
        growth: Growth,
    ) -> Result<Reservation> {
        let reserved = if growth.is_growth() {
            let reserve = |count: &mut Count, seen| count.reserve(id, limits, growth, seen);
            self.load(clusters, id, reserve).await??;
            growth
        } else {
            Growth::default()
        };
        Ok(Reservation { usage: Arc::clone(self), id: Arc::clone(id), growth, reserved })
    }

    /// Drops the cached usage of a cluster.
    pub(crate) fn forget(&self, id: &str) {
        self.lock().clusters.remove(id);
    }

    /// Number of cached clusters.
    #[cfg(any(test, feature = "samples"))]
    pub(crate) fn len(&self) -> usize {
        self.lock().clusters.len()
    }

    /// Calls `with` on the count of a cluster, which is computed first if it is not cached.
    async fn load<T: Send>(
        &self,
        clusters: &Store,
        id: &str,
        mut with: impl FnMut(&mut Count, Revision) -> T + Send,
    ) -> Result<T> {
        for _ in 0..MAX_ATTEMPTS {
            if let Some(done) = self.with_ready(id, &mut with) {
                return Ok(done);
            }
            self.start(clusters).await?;
            let summing = self.lock().begin(id);
            let _only_reader = summing.acquire().await.expect("the semaphore is never closed");
            if let Some(done) = self.with_ready(id, &mut with) {
                return Ok(done);
            }
            match sum(clusters, id).await {
                Ok((total, revision)) => self.lock().finish(id, total, revision),
                // Compaction removed the revision; the next attempt reads a later one.
                Err(StoreError::Compacted { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let key = id.as_bytes().to_vec();
        Err(Error::Store(StoreError::Contention { key, attempts: MAX_ATTEMPTS }))
    }

    fn with_ready<T>(&self, id: &str, with: &mut impl FnMut(&mut Count, Revision) -> T) -> Option<T> {
        let mut tracked = self.lock();
        tracked.catch_up();
        let (uses, seen) = (tracked.uses + 1, tracked.seen);
        tracked.uses = uses;
        let count = tracked.clusters.get_mut(id).filter(|count| count.buffered.is_none())?;
        count.last_used = uses;
        Some(with(count, seen))
    }

    async fn start(&self, clusters: &Store) -> Result<()> {
        let _only_starter = self.starting.acquire().await.expect("the semaphore is never closed");
        if self.lock().watch.is_some() {
            return Ok(());
        }
        let watch = clusters.watch(WatchRequest::default()).await?;
        let mut tracked = self.lock();
        tracked.clusters.clear();
        tracked.watch = Some(watch);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Tracked> {
        self.tracked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tracked {
    /// Applies the events that have arrived. Drops everything if some are lost or too many are waiting.
    fn catch_up(&mut self) {
        let Some(mut watch) = self.watch.take() else { return };
        for _ in 0..MAX_EVENTS {
            match watch.next_arrived() {
                None => {
                    self.watch = Some(watch);
                    return;
                }
                Some(Ok(event)) if self.apply(&event).is_some() => {}
                Some(_) => break,
            }
        }
        self.clusters.clear();
    }

    /// `None` if the change of usage does not follow from the event.
    fn apply(&mut self, event: &WatchEvent) -> Option<()> {
        let revision = event.revision();
        self.seen = self.seen.max(revision);
        let Some(key) = event.key() else { return Some(()) };
        let end = key.iter().position(|byte| *byte == b'/')?;
        let size = |entry: &Entry| entry.key().len() - end - 1 + entry.value_len();
        let growth = match event {
            WatchEvent::Put { entry, previous: Some(previous) } => {
                Growth { bytes: signed(size(entry)) - signed(size(previous)), objects: 0 }
            }
            WatchEvent::Put { entry, previous: None } if entry.version() == 1 => Growth::added(size(entry)),
            WatchEvent::Delete { previous: Some(previous), .. } => Growth::removed(size(previous)),
            _ => return None,
        };
        let id = std::str::from_utf8(&key[..end]).ok()?;
        if let Some(count) = self.clusters.get_mut(id) {
            match &mut count.buffered {
                Some(buffered) => buffered.push((revision, growth)),
                None => count.total = count.total.plus(growth),
            }
        }
        Some(())
    }

    /// Starts to buffer the events of a cluster, before its sum is read.
    fn begin(&mut self, id: &str) -> Arc<Semaphore> {
        if let Some(count) = self.clusters.get(id) {
            return Arc::clone(&count.summing);
        }
        if self.clusters.len() >= MAX_CLUSTERS {
            self.drop_oldest();
        }
        let summing = Arc::new(Semaphore::new(1));
        let count = Count {
            total: Growth::default(),
            buffered: Some(Vec::new()),
            unseen: Vec::new(),
            reserved: Growth::default(),
            last_used: self.uses,
            summing: Arc::clone(&summing),
        };
        self.clusters.insert(id.into(), count);
        summing
    }

    /// Sets the sum, and adds the buffered events after its revision.
    fn finish(&mut self, id: &str, sum: Growth, at: Revision) {
        self.catch_up();
        let Some(count) = self.clusters.get_mut(id) else { return };
        let Some(buffered) = count.buffered.take() else { return };
        let later = buffered.into_iter().filter(|(revision, _)| *revision > at);
        count.total = later.fold(sum, |total, (_, growth)| total.plus(growth));
        count.unseen.retain(|(revision, _)| *revision > at);
    }

    fn drop_oldest(&mut self) {
        let oldest = self.clusters.iter().min_by_key(|(_, count)| count.last_used);
        if let Some(id) = oldest.map(|(id, _)| Arc::clone(id)) {
            self.clusters.remove(&id);
        }
    }
}

impl Count {
    fn total(&mut self, seen: Revision) -> Growth {
        self.unseen.retain(|(revision, _)| *revision > seen);
        self.unseen.iter().fold(self.total, |total, (_, growth)| total.plus(*growth))
    }

    fn current(&mut self, seen: Revision) -> ClusterUsage {
        let total = self.total(seen);
        ClusterUsage { bytes: unsigned(total.bytes), objects: unsigned(total.objects) }
    }

    fn reserve(&mut self, id: &str, limits: &ClusterLimits, growth: Growth, seen: Revision) -> Result<()> {
        let used = self.total(seen).plus(self.reserved);
        let checked = [
            ("bytes", limits.max_bytes, used.bytes, growth.bytes),
            ("objects", limits.max_objects, used.objects, growth.objects),
        ];
        for (resource, limit, used, growth) in checked {
            let Some(limit) = limit else { continue };
            let (used, growth) = (unsigned(used), unsigned(growth));
            if growth > 0 && used.saturating_add(growth) > limit {
                return Err(Error::ClusterFull { id: id.to_owned(), resource, limit, used, growth });
            }
        }
        self.reserved = self.reserved.plus(growth);
        Ok(())
    }
}

/// Quota reserved for one write. Released on drop unless it is [`Reservation::committed`].
#[must_use]
pub(crate) struct Reservation {
    usage: Arc<Usage>,
    id: Arc<str>,
    growth: Growth,
    reserved: Growth,
}

impl Reservation {
    /// Records that the write was committed at this revision.
    pub(crate) fn committed(self, revision: Revision) {
        let mut tracked = self.usage.lock();
        let seen = tracked.seen;
        if let Some(count) = tracked.clusters.get_mut(&self.id)
            && revision > seen
        {
            count.unseen.push((revision, self.growth));
        }
        drop(tracked);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(count) = self.usage.lock().clusters.get_mut(&self.id) {
            let left = count.reserved.minus(self.reserved);
            // A count that was evicted and computed again has no earlier reservations.
            count.reserved = Growth { bytes: left.bytes.max(0), objects: left.objects.max(0) };
        }
    }
}

/// Computes the usage of a cluster at one revision.
async fn sum(clusters: &Store, id: &str) -> Result<(Growth, Revision), StoreError> {
    let objects = clusters.scope(id)?;
    let (mut total, mut at, mut start) = (Growth::default(), At::Latest, Vec::new());
    loop {
        let request = RangeRequest { limit: PAGE_OBJECTS, at, ..RangeRequest::default().start(start) };
        let range = objects.range(request).await?;
        at = At::Revision(range.revision);
        for entry in &range.entries {
            total = total.plus(Growth::added(entry.key().len() + entry.value_len()));
        }
        start = match range.entries.last() {
            Some(last) if range.more => [last.key(), b"\0"].concat(),
            _ => return Ok((total, range.revision)),
        };
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
