//! The objects of one cluster, and who is asked for them.

use std::sync::{Arc, Mutex, PoisonError};

use coracle_base::{Clock, Rng};
use coracle_meta::name::{ALPHABET, GENERATED_SUFFIX_LENGTH};
use coracle_meta::object::Meta;
use coracle_meta::time::Time;
use coracle_store::Store;
use serde_json::Value;

use crate::claim::{Pool, Taken, Unallocated};
use crate::error::{Error, Result, Subject};
use crate::lifecycle::Write;
use crate::network::ServiceNetwork;

/// The part of the store that clusters live in.
const CLUSTERS: &str = "clusters";

/// All clusters of a store.
#[derive(Clone)]
pub struct Registry {
    store: Store,
    clock: Clock,
    rng: Arc<Mutex<Rng>>,
    network: Arc<ServiceNetwork>,
}

impl Registry {
    /// The clusters of this store.
    pub fn new(store: Store, clock: Clock, rng: Rng) -> Self {
        Self { store, clock, rng: Arc::new(Mutex::new(rng)), network: Arc::default() }
    }

    /// With services in another network than the usual.
    #[must_use]
    pub fn with_service_network(mut self, network: ServiceNetwork) -> Self {
        self.network = Arc::new(network);
        self
    }

    /// Clusters that nothing is kept of, for tests.
    #[cfg(any(test, feature = "samples"))]
    pub fn in_memory() -> Self {
        let store = coracle_store::memory::open(coracle_store::memory::Options::default());
        Self::new(store, Clock::system(), Rng::from_entropy())
    }

    /// One cluster. It need not exist: it begins with its first object.
    ///
    /// # Errors
    /// If the id cannot be one.
    pub fn cluster(&self, id: &str) -> Result<Cluster> {
        let store = self.store.scope(CLUSTERS)?.scope(id)?;
        Ok(Cluster { store, clock: self.clock.clone(), rng: self.rng.clone(), network: self.network.clone() })
    }
}

/// The objects of one cluster. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) store: Store,
    clock: Clock,
    rng: Arc<Mutex<Rng>>,
    network: Arc<ServiceNetwork>,
}

impl Cluster {
    /// From where services get their addresses and ports.
    pub fn service_network(&self) -> &ServiceNetwork {
        &self.network
    }

    /// Lets a kind choose what an object is to hold for itself alone.
    pub(crate) fn allocate(
        &self,
        write: &Write<'_>,
        new: &mut Value,
        old: Option<&Value>,
        taken: &Taken,
    ) -> Result<()> {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let chosen = write.kind.allocate(new, old, &mut Pool::new(&self.network, taken, &mut rng));
        chosen.map_err(|refused| match refused {
            Unallocated::Invalid(errors) => {
                let subject = Box::new(Subject::of(write.kind.declaration(), Meta::of(new).name()));
                Error::Invalid { subject, errors }
            }
            Unallocated::Exhausted(message) => Error::Exhausted(message),
        })
    }

    pub(crate) fn now(&self) -> Time {
        Time(i64::try_from(self.clock.now().as_millis() / 1000).unwrap_or(i64::MAX))
    }

    /// A random identity, version 4 of RFC 9562.
    pub(crate) fn new_uid(&self) -> String {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let (high, low) = (rng.u64(), rng.u64());
        let high = high & !0xf000 | 0x4000;
        let low = low & !(0b11 << 62) | 0b10 << 62;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    pub(crate) fn name_digits(&self) -> [u8; GENERATED_SUFFIX_LENGTH] {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        std::array::from_fn(|_| rng.below(ALPHABET.len() as u64) as u8)
    }
}
