//! What an object holds for itself alone: an address, a port.
//!
//! A allocation is a key of its own, written in the same transaction as the object that holds it and
//! only if it is free. So no two objects ever hold the same, and none is left behind by a crash
//! between two writes. Kinds choose without asking the store ([`Pool::pick`]); a choice that
//! turns out to be taken is remembered, and another is made.

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

/// How many free places are guessed at before a choice is given up: the store then tells all
/// that are taken.
const GUESSES: usize = 16;

/// Why an object does not get what it must have for itself alone.
#[derive(Debug)]
pub enum Unallocated {
    /// The client asks for what it cannot have.
    Invalid(ErrorList),
    /// There is nothing left to choose from, or upstream says so in the same way: no fault of
    /// the client's. In words for the client.
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

/// Something that only one object can hold.
#[derive(Clone)]
pub struct Allocation {
    pub(crate) key: String,
    pub(crate) record: Record,
}

/// What is stored for a allocation.
#[derive(Clone)]
pub(crate) enum Record {
    /// An object that clients can read.
    Object(Value),
    /// Who holds it, for nobody but ourselves.
    Note(Value),
}

impl Allocation {
    /// A allocation that is an object itself, such as an IPAddress. Of a kind without namespaces.
    pub fn object(kind: &dyn Kind, name: &str, object: Value) -> Self {
        Self { key: keys::key(kind.declaration(), "", name), record: Record::Object(object) }
    }

    /// A allocation that no client sees, among those called `family`.
    pub fn note(family: &str, name: &str, holder: Value) -> Self {
        Self { key: format!("claims/{family}/{name}"), record: Record::Note(holder) }
    }
}

impl PartialEq for Allocation {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

/// What is known to be held by others, and from where the rest comes.
#[derive(Debug, Default)]
pub(crate) struct AllocatedSet {
    keys: HashSet<String>,
    collisions: usize,
    ranges: Vec<AddressRange>,
    /// What the last attempt has allocated, and how long choosing took.
    allocated: Mutex<(Vec<MeteredAllocation>, Duration)>,
}

impl AllocatedSet {
    /// Notes that a key is taken. Returns the family that should be learnt whole, if guessing has
    /// failed too often.
    pub(crate) fn mark_conflict(&mut self, key: String) -> Option<String> {
        self.collisions += 1;
        let family = family(&key).to_owned();
        self.keys.insert(key);
        self.collisions.is_multiple_of(GUESSES).then_some(family)
    }

    /// Notes what an attempt has allocated.
    pub(crate) fn set_allocated(&self, allocations: Vec<MeteredAllocation>, took: Duration) {
        *self.allocated.lock().unwrap_or_else(PoisonError::into_inner) = (allocations, took);
    }

    /// What the last attempt has allocated, and how long choosing took.
    pub(crate) fn take_allocated(&self) -> (Vec<MeteredAllocation>, Duration) {
        std::mem::take(&mut *self.allocated.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes the ranges that the objects of the cluster say there are.
    pub(crate) fn set_ranges(&mut self, ranges: Vec<AddressRange>) {
        self.ranges = ranges;
    }

    /// Notes all that is taken of a family.
    pub(crate) fn load(&mut self, keys: impl IntoIterator<Item = String>) {
        self.keys.extend(keys);
    }
}

fn family(key: &str) -> &str {
    key.rsplit_once('/').map_or("", |(family, _)| family)
}

/// From what can be chosen.
pub struct Pool<'a> {
    pub(crate) network: &'a ServiceNetwork,
    pub(crate) taken: &'a AllocatedSet,
    pub(crate) rng: &'a mut Rng,
    /// What was chosen in this attempt, for the same object.
    chosen: HashSet<String>,
    /// What the object gets, and what it could not get.
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

    /// Whether nothing of what is chosen will be stored.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// From where services get their addresses and ports.
    pub fn network(&self) -> &'a ServiceNetwork {
        self.network
    }

    /// The ranges of addresses of a family: those that the objects of the cluster say, or else those that
    /// it was given.
    pub fn ranges_of(&self, family: &str) -> Vec<AddressRange> {
        let known = if self.taken.ranges.is_empty() { self.network.ranges() } else { &self.taken.ranges };
        known.iter().filter(|range| range.family() == family).copied().collect()
    }

    /// Takes what a client asks for by name. False if it is taken.
    pub fn take(&mut self, allocation: &Allocation) -> bool {
        !self.taken.keys.contains(&allocation.key) && self.chosen.insert(allocation.key.clone())
    }

    /// Takes one of `count` places, of which `allocation_of` makes claims. None if all are taken.
    pub fn pick(&mut self, count: u64, allocation_of: impl Fn(u64) -> Allocation) -> Option<u64> {
        if count == 0 {
            return None;
        }
        let first = u128::from(self.rng.below(count));
        // Among one more than are known to be taken there is one that is not.
        let tries =
            (self.taken.keys.len() + self.chosen.len() + 1).min(usize::try_from(count).unwrap_or(usize::MAX));
        let places = (0..tries as u128).map(|offset| ((first + offset) % u128::from(count)) as u64);
        places.into_iter().find(|index| self.take(&allocation_of(*index)))
    }

    /// Takes one of `count` places, and one of the first `lower` only if the others are taken.
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
    fn what_is_taken_is_not_picked() {
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
    fn after_many_collisions_the_whole_family_is_learnt() {
        let mut taken = AllocatedSet::default();
        let families: Vec<_> =
            (0..GUESSES as u64).filter_map(|index| taken.mark_conflict(port(index).key)).collect();
        assert_eq!(families, ["claims/port"]);
    }
}
