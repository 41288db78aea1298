//! Handles to the clusters of a store and to the objects of one cluster.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use coracle_base::metrics::Metrics;
use coracle_base::{Clock, ManualClock, Rng, Timestamp};
use coracle_meta::name::{ALPHABET, GENERATED_SUFFIX_LENGTH, generate_name};
use coracle_meta::object::Meta;
use coracle_meta::time::Time;
use coracle_store::Store;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::admission::Admission;
use crate::allocation::{AllocatedSet, Pool, Unallocated};
use crate::allocation_metrics::AllocationMetrics;
use crate::bootstrap::{ClusterBase, Shared};
use crate::clusters::{
    ClusterLimits, DEFAULT_CLUSTER, Directory, Growth, KnownCluster, RECORDS, Reservation, Usage,
};
use crate::crd::CompiledCache;
use crate::error::{Error, Result, Subject};
use crate::lifecycle::Write;
use crate::network::ServiceNetwork;
use crate::parse_cache::ParseCache;

/// Scope of the store that contains all clusters.
pub(crate) const CLUSTERS: &str = "clusters";

/// All clusters of a store. Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    store: Store,
    clusters: Store,
    records: Store,
    clock: Clock,
    rng: Arc<Mutex<Rng>>,
    network: Arc<ServiceNetwork>,
    /// The bootstrap objects that all clusters share, set once by the bootstrap.
    base: Arc<OnceLock<Arc<Shared>>>,
    admission: Option<Arc<dyn Admission>>,
    trees: Arc<ParseCache<Value>>,
    definitions: Arc<CompiledCache>,
    directory: Arc<Directory>,
    usage: Arc<Usage>,
    allocations: Arc<AllocationMetrics>,
    default_limits: ClusterLimits,
}

impl Registry {
    /// The clusters of this store.
    pub fn new(store: Store, clock: Clock, rng: Rng) -> Self {
        let rng = Arc::new(Mutex::new(rng));
        let (clusters, records) = scopes(&store);
        Self {
            store,
            clusters,
            records,
            clock,
            rng,
            network: Arc::default(),
            base: Arc::default(),
            admission: None,
            trees: Arc::new(ParseCache::trees()),
            definitions: Arc::default(),
            directory: Arc::default(),
            usage: Arc::default(),
            allocations: Arc::default(),
            default_limits: ClusterLimits::OF_CREATED_CLUSTERS,
        }
    }

    /// Metrics of all clusters together.
    pub fn metrics(&self) -> &Metrics {
        self.allocations.registry()
    }

    /// Sets the limits of new clusters for which none are requested.
    #[must_use]
    pub fn with_default_limits(mut self, limits: ClusterLimits) -> Self {
        self.default_limits = limits;
        self
    }

    /// Sets the network of services.
    #[must_use]
    pub fn with_service_network(mut self, network: ServiceNetwork) -> Self {
        self.network = Arc::new(network);
        self
    }

    /// Sets the admission chain.
    #[must_use]
    pub fn with_admission(mut self, admission: Arc<dyn Admission>) -> Self {
        self.admission = Some(admission);
        self
    }

    /// The same clusters through another handle of their store.
    pub(crate) fn with_store(&self, store: Store) -> Self {
        let (clusters, records) = scopes(&store);
        Self { store, clusters, records, ..self.clone() }
    }

    /// Clusters in a store in memory, for tests.
    #[cfg(any(test, feature = "samples"))]
    pub fn in_memory() -> Self {
        Self::in_memory_at(Clock::system())
    }

    /// Clusters in a store in memory, with another clock.
    #[cfg(any(test, feature = "samples"))]
    pub fn in_memory_at(clock: Clock) -> Self {
        let store = coracle_store::memory::open(coracle_store::memory::Options::default());
        Self::new(store, clock, Rng::from_entropy())
    }

    /// One cluster, from the records that this server has cached; see [`Registry::find_cluster`]. Reads nothing from
    /// the store.
    ///
    /// # Errors
    /// If there is no such cluster.
    pub fn cluster(&self, id: &str) -> Result<Cluster> {
        // If changes are lost, `find_cluster` reads all records; until then writes to a deleted cluster fail anyway.
        self.directory.catch_up(self.records());
        self.known_cluster(id)
    }

    /// One cluster, after all changes by other servers that have arrived are applied.
    ///
    /// # Errors
    /// If there is no such cluster, or the store fails.
    pub async fn find_cluster(&self, id: &str) -> Result<Cluster> {
        // The default cluster always exists, and most requests are for it. Changes of its limits by this server are
        // applied at once; those by others arrive with the next request for another cluster, or by `follow_clusters`.
        if id != DEFAULT_CLUSTER || !self.directory.is_loaded() {
            self.refresh_clusters().await?;
        }
        self.known_cluster(id)
    }

    fn known_cluster(&self, id: &str) -> Result<Cluster> {
        match self.directory.get(id) {
            None if id != DEFAULT_CLUSTER => Err(Error::UnknownCluster { id: id.to_owned() }),
            known => self.open(id, known),
        }
    }

    fn open(&self, id: &str, known: Option<Arc<KnownCluster>>) -> Result<Cluster> {
        let mut own = self.all_clusters().scope(id)?;
        if let Some(known) = known.as_ref().filter(|_| id != DEFAULT_CLUSTER) {
            own = own.guarded(&known.guard);
        }
        let uid = known.as_ref().map_or("", |known| &known.record.uid);
        let base = self.base.get().map(|shared| Arc::new(ClusterBase::new(shared.clone(), id, uid)));
        let store = base.clone().map_or_else(|| own.clone(), |base| own.over(base));
        let (clock, rng, network) = (self.clock.clone(), self.rng.clone(), self.network.clone());
        let (admission, trees) = (self.admission.clone(), self.trees.clone());
        let (definitions, usage) = (self.definitions.clone(), self.usage.clone());
        let (id, all, allocations) = (id.into(), self.clusters.clone(), self.allocations.clone());
        Ok(Cluster {
            id,
            known,
            all,
            usage,
            store,
            clock,
            rng,
            network,
            base,
            admission,
            trees,
            definitions,
            allocations,
        })
    }

    /// A cluster with a fixed time in which bootstrap objects are prepared. Nothing is written to it.
    pub(crate) fn scratch_cluster(&self, at: Time) -> Result<Cluster> {
        let at = Timestamp::from_millis(u64::try_from(at.0).unwrap_or(0) * 1000);
        let clock = ManualClock::starting_at(at).clock();
        // Random values in these objects are replaced later. A separate generator keeps the sequence of the main one
        // unchanged.
        let rng = Arc::new(Mutex::new(Rng::seeded(0)));
        let standing = Self { clock, rng, base: Arc::default(), admission: None, ..self.clone() };
        standing.open("scratch", None)
    }

    pub(crate) fn set_base(&self, shared: Arc<Shared>) {
        // A second call has the same objects, so its value can be dropped.
        let _ = self.base.set(shared);
    }

    /// Scope of the store that contains all clusters.
    pub(crate) fn all_clusters(&self) -> &Store {
        &self.clusters
    }

    /// Scope of the store that contains the records of clusters.
    pub(crate) fn records(&self) -> &Store {
        &self.records
    }

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    pub(crate) fn default_limits(&self) -> ClusterLimits {
        self.default_limits
    }

    /// Numbers of clusters, of unconfirmed changes of clusters, and of usages in memory.
    #[cfg(any(test, feature = "samples"))]
    pub fn held_clusters(&self) -> (usize, usize, usize) {
        let (clusters, ahead) = self.directory.len();
        (clusters, ahead, self.usage.len())
    }

    /// The bootstrap objects that all clusters share.
    pub(crate) fn shared_base(&self) -> Option<Arc<Shared>> {
        self.base.get().cloned()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn now(&self) -> Time {
        now(&self.clock)
    }

    /// A random UUID, version 4 (RFC 9562).
    pub fn new_uid(&self) -> String {
        random_uid(&self.rng)
    }
}

/// The objects of one cluster. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    id: Arc<str>,
    /// The record of the cluster, if it has one.
    known: Option<Arc<KnownCluster>>,
    /// The scope of all clusters.
    all: Store,
    usage: Arc<Usage>,
    pub(crate) store: Store,
    clock: Clock,
    rng: Arc<Mutex<Rng>>,
    network: Arc<ServiceNetwork>,
    base: Option<Arc<ClusterBase>>,
    admission: Option<Arc<dyn Admission>>,
    trees: Arc<ParseCache<Value>>,
    definitions: Arc<CompiledCache>,
    pub(crate) allocations: Arc<AllocationMetrics>,
}

impl Cluster {
    /// The id of the cluster, unique in the store.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The UID that the cluster got when it was created. A cluster that is created later under the same id has
    /// another UID. Empty for the default cluster, which always exists, and for clusters that were adopted from a
    /// version without cluster records.
    pub fn uid(&self) -> &str {
        self.known.as_ref().map_or("", |known| &known.record.uid)
    }

    /// Cancelled when the cluster is deleted; none for the default cluster, which cannot be deleted.
    pub fn deletion(&self) -> Option<&CancellationToken> {
        self.known.as_ref().filter(|_| &*self.id != DEFAULT_CLUSTER).map(|known| &known.deleted)
    }

    /// Whether the cluster has been deleted since this handle was opened.
    pub fn is_deleted(&self) -> bool {
        self.deletion().is_some_and(CancellationToken::is_cancelled)
    }

    /// Reserves quota of the cluster for a write; none if the cluster has no limits.
    pub(crate) async fn reserve(&self, growth: Growth) -> Result<Option<Reservation>> {
        let Some(known) = self.known.as_ref().filter(|known| !known.record.limits.is_unlimited()) else {
            return Ok(None);
        };
        self.usage.reserve(&self.all, &self.id, &known.record.limits, growth).await.map(Some)
    }

    /// The network from which services get addresses and ports.
    pub fn service_network(&self) -> &ServiceNetwork {
        &self.network
    }

    /// Calls [`crate::Kind::allocate`] for an object.
    pub(crate) fn allocate(
        &self,
        write: &Write<'_>,
        new: &mut Value,
        old: Option<&Value>,
        taken: &AllocatedSet,
    ) -> Result<()> {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pool = Pool::new(&self.network, taken, &mut rng).for_dry_run(write.dry_run);
        let began = self.clock.uptime();
        let chosen = write.kind.allocate(new, old, &mut pool);
        if !write.dry_run {
            if let Some(failed) = &pool.failed {
                self.allocations.note_failure(failed);
            }
            if !pool.allocated.is_empty() {
                taken.set_allocated(pool.allocated, self.clock.uptime().saturating_sub(began));
            }
        }
        chosen.map_err(|refused| match refused {
            Unallocated::Invalid(errors) => {
                let subject = Box::new(Subject::of(write.kind.declaration(), Meta::of(new).name()));
                Error::Invalid { subject, errors }
            }
            Unallocated::Exhausted(message) => Error::Exhausted(message),
        })
    }

    pub(crate) fn admission(&self) -> Option<&dyn Admission> {
        self.admission.as_deref()
    }

    /// The same cluster without admission.
    pub(crate) fn without_admission(&self) -> Self {
        Self { admission: None, ..self.clone() }
    }

    pub(crate) fn definitions(&self) -> &CompiledCache {
        &self.definitions
    }

    pub(crate) fn trees(&self) -> &ParseCache<Value> {
        &self.trees
    }

    /// The shared bootstrap objects beneath the cluster's own objects.
    pub(crate) fn base(&self) -> Option<&ClusterBase> {
        self.base.as_deref()
    }

    /// The current time.
    pub fn now(&self) -> Time {
        now(&self.clock)
    }

    /// A random UUID, version 4 (RFC 9562).
    pub fn new_uid(&self) -> String {
        random_uid(&self.rng)
    }

    /// A random number below a bound, for jitter.
    pub fn spread(&self, below: u64) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).below(below)
    }

    /// A name with this prefix and a random suffix, as for `generateName`; probably unused.
    pub fn generate_name(&self, prefix: &str) -> String {
        generate_name(prefix, self.name_digits())
    }

    pub(crate) fn name_digits(&self) -> [u8; GENERATED_SUFFIX_LENGTH] {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        std::array::from_fn(|_| rng.below(ALPHABET.len() as u64) as u8)
    }
}

/// The scopes of clusters and of their records.
fn scopes(store: &Store) -> (Store, Store) {
    let scope = |name| store.scope(name).expect("the name is not empty and has no slash");
    (scope(CLUSTERS), scope(RECORDS))
}

fn now(clock: &Clock) -> Time {
    Time(i64::try_from(clock.now().as_millis() / 1000).unwrap_or(i64::MAX))
}

fn random_uid(rng: &Mutex<Rng>) -> String {
    let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
    uid(rng.u64(), rng.u64())
}

/// Formats these bits as a UUID, version 4 (RFC 9562).
pub(crate) fn uid(high: u64, low: u64) -> String {
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    let bits = u128::from(high) << 64 | u128::from(low);
    let mut text = String::with_capacity(36);
    // Written by hand because every request has a UUID, and formatting takes many times as long.
    for place in 0..32 {
        if matches!(place, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(char::from(b"0123456789abcdef"[(bits >> (124 - 4 * place)) as usize & 0xf]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_have_the_format_of_rfc_9562() {
        assert_eq!(uid(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uid(u64::MAX, u64::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uid(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210), "01234567-89ab-4def-bedc-ba9876543210");
    }
}
