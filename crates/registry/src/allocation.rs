//! Allocation of values that only one object can hold: service IPs and node ports.
//!
//! An allocation is a key of its own, written in the same transaction as the object that holds it and only if the key
//! does not exist. So no two objects ever hold the same value, and a crash between two writes leaks none. Kinds
//! choose values without a read of the store ([`Pool::pick`]); if the transaction finds a value in use, it is marked
//! as allocated, and the kind chooses again.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coracle_base::Rng;
use coracle_meta::field::{ErrorList, FieldError};
use serde_json::Value;

use crate::allocation_metrics::MeteredAllocation;
use crate::keys;
use crate::kind::Kind;
use crate::network::{AddressRange, ServiceNetwork};

/// Number of conflicts after which all allocations of a family are loaded from the store instead of guessing on.
const GUESSES: usize = 16;

/// Why an allocation failed.
#[derive(Debug)]
pub enum Unallocated {
    /// The client requests a value that it cannot have.
    Invalid(ErrorList),
    /// No value is left, or kube-apiserver reports the failure in the same way: not an error of the client. The
    /// message is for the client.
    Exhausted(String),
}

impl From<ErrorList> for Unallocated {
    fn from(errors: ErrorList) -> Self {
        Self::Invalid(errors)
    }
}

impl From<FieldError> for Unallocated {
    fn from(error: FieldError) -> Self {
        Self::Invalid(ErrorList::from_iter([error]))
    }
}

/// A value that only one object can hold.
#[derive(Clone)]
pub struct Allocation {
    pub(crate) key: String,
    pub(crate) record: Record,
}

/// The stored value of an allocation.
#[derive(Clone)]
pub(crate) enum Record {
    /// An object that clients can read, such as an IPAddress.
    Object(Value),
    /// The holder, for internal use only.
    Note(Value),
}

impl Allocation {
    /// An allocation that is itself an object of a cluster-scoped kind, such as an IPAddress.
    pub fn object(kind: &dyn Kind, name: &str, object: Value) -> Self {
        Self { key: keys::key(kind.declaration(), "", name), record: Record::Object(object) }
    }

    /// An internal allocation in a family such as the node ports; clients do not see it.
    pub fn note(family: &str, name: &str, holder: Value) -> Self {
        Self { key: format!("claims/{family}/{name}"), record: Record::Note(holder) }
    }
}

impl PartialEq for Allocation {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

/// Values that other objects are known to hold, and the IP ranges of the cluster.
#[derive(Debug, Default)]
pub(crate) struct AllocatedSet {
    keys: HashSet<String>,
    collisions: usize,
    ranges: Vec<AddressRange>,
    /// Allocations of the last attempt, and the duration of choosing them.
    allocated: Mutex<(Vec<MeteredAllocation>, Duration)>,
}

impl AllocatedSet {
    /// Marks a key as allocated after a conflict. Returns its family after every [`GUESSES`] conflicts: the caller
    /// should then load all allocations of the family.
    pub(crate) fn mark_conflict(&mut self, key: String) -> Option<String> {
        self.collisions += 1;
        let family = family(&key).to_owned();
        self.keys.insert(key);
        self.collisions.is_multiple_of(GUESSES).then_some(family)
    }

    /// Records the allocations of an attempt.
    pub(crate) fn set_allocated(&self, allocations: Vec<MeteredAllocation>, took: Duration) {
        *self.allocated.lock().unwrap_or_else(PoisonError::into_inner) = (allocations, took);
    }

    /// Takes the allocations of the last attempt, and the duration of choosing them.
    pub(crate) fn take_allocated(&self) -> (Vec<MeteredAllocation>, Duration) {
        std::mem::take(&mut *self.allocated.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the IP ranges that objects of the cluster define.
    pub(crate) fn set_ranges(&mut self, ranges: Vec<AddressRange>) {
        self.ranges = ranges;
    }

    /// Adds all allocated keys of a family.
    pub(crate) fn load(&mut self, keys: impl IntoIterator<Item = String>) {
        self.keys.extend(keys);
    }
}

fn family(key: &str) -> &str {
    key.rsplit_once('/').map_or("", |(family, _)| family)
}

/// The values from which a kind allocates for one object.
pub struct Pool<'a> {
    pub(crate) network: &'a ServiceNetwork,
    pub(crate) taken: &'a AllocatedSet,
    pub(crate) rng: &'a mut Rng,
    /// Keys chosen in this attempt for the same object.
    chosen: HashSet<String>,
    /// Successful allocations, and the one that failed.
    pub(crate) allocated: Vec<MeteredAllocation>,
    pub(crate) failed: Option<MeteredAllocation>,
    dry_run: bool,
}

impl<'a> Pool<'a> {
    pub(crate) fn new(network: &'a ServiceNetwork, taken: &'a AllocatedSet, rng: &'a mut Rng) -> Self {
        Self {
            network,
            taken,
            rng,
            chosen: HashSet::new(),
            allocated: Vec::new(),
            failed: None,
            dry_run: false,
        }
    }

    pub(crate) fn for_dry_run(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }

    /// Whether the write is a dry run, so that no allocation is stored.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// The configured network of services.
    pub fn network(&self) -> &'a ServiceNetwork {
        self.network
    }

    /// IP ranges of an address family: those that objects of the cluster define, otherwise the configured ones.
    pub fn ranges_of(&self, family: &str) -> Vec<AddressRange> {
        let known = if self.taken.ranges.is_empty() { self.network.ranges() } else { &self.taken.ranges };
        known.iter().filter(|range| range.family() == family).copied().collect()
    }

    /// Allocates a value that the client requests. False if it is already allocated.
    pub fn take(&mut self, allocation: &Allocation) -> bool {
        !self.taken.keys.contains(&allocation.key) && self.chosen.insert(allocation.key.clone())
    }

    /// Allocates one of `count` values, of which `allocation_of` makes the allocations. None if all are allocated.
    pub fn pick(&mut self, count: u64, allocation_of: impl Fn(u64) -> Allocation) -> Option<u64> {
        if count == 0 {
            return None;
        }
        let first = u128::from(self.rng.below(count));
        // Of one more candidates than there are known allocations, at least one is free.
        let tries =
            (self.taken.keys.len() + self.chosen.len() + 1).min(usize::try_from(count).unwrap_or(usize::MAX));
        let places = (0..tries as u128).map(|offset| ((first + offset) % u128::from(count)) as u64);
        places.into_iter().find(|index| self.take(&allocation_of(*index)))
    }

    /// Allocates one of `count` values, from the first `lower` only if all others are allocated.
    pub fn pick_banded(
        &mut self,
        count: u64,
        lower: u64,
        allocation_of: impl Fn(u64) -> Allocation,
    ) -> Option<u64> {
        let upper = self.pick(count - lower, |index| allocation_of(lower + index)).map(|index| lower + index);
        upper.or_else(|| self.pick(lower, allocation_of))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn port(index: u64) -> Allocation {
        Allocation::note("port", &index.to_string(), json!({}))
    }

    #[test]
    fn allocated_values_are_not_picked() {
        let network = ServiceNetwork::default();
        let mut taken = AllocatedSet::default();
        taken.load((0..7).map(|index| port(index).key));
        for seed in 0..50 {
            let mut rng = Rng::seeded(seed);
            let mut pool = Pool::new(&network, &taken, &mut rng);
            assert_eq!(pool.pick(8, port), Some(7));
            assert_eq!(pool.pick(8, port), None, "it was picked already");
            assert!(!pool.take(&port(7)) && !pool.take(&port(0)) && pool.take(&port(8)));
        }
    }

    #[test]
    fn family_is_loaded_after_many_conflicts() {
        let mut taken = AllocatedSet::default();
        let families: Vec<_> =
            (0..GUESSES as u64).filter_map(|index| taken.mark_conflict(port(index).key)).collect();
        assert_eq!(families, ["claims/port"]);
    }
}
