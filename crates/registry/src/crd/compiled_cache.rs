//! Cache of compiled CustomResourceDefinitions.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_store::{Entry, Revision};

use super::definition::{Definition, Served, fingerprint};
use crate::error::Result;

/// Number of definitions in one generation, of which there are two. A definition in use takes a fraction of its text,
/// so this is some tens of megabytes if all are large and in use.
const GENERATION: usize = 512;

/// Number of writes of definitions that are mapped to a cached definition. Each takes some hundred bytes, and
/// clusters share definitions but not writes.
const KNOWN_WRITES: usize = 8 * GENERATION;

/// The cache. Entries that are not used while a whole generation fills up are evicted.
#[derive(Default)]
pub(crate) struct CompiledCache {
    caches: Mutex<Caches>,
}

#[derive(Default)]
struct Caches {
    /// By name and revision of the write, which belongs to one cluster.
    writes: Generations<(Box<[u8]>, Revision), Option<Served>>,
    /// By content.
    definitions: Generations<u64, Arc<Definition>>,
}

impl CompiledCache {
    /// The served kind of a stored definition, if it is established.
    pub(super) fn of(&self, entry: &Entry) -> Result<Option<Served>> {
        let write = (entry.key().into(), entry.mod_revision());
        if let Some(known) = self.lock().writes.find(&write, KNOWN_WRITES) {
            return Ok(known);
        }
        let mut served = super::read(entry)?;
        let mut caches = self.lock();
        if let (Some(served), Some(hash)) = (&mut served, fingerprint(entry)) {
            match caches.definitions.find(&hash, GENERATION).filter(|known| known.is_of(entry)) {
                Some(known) => served.definition = known,
                None => caches.definitions.keep(hash, served.definition.clone(), GENERATION),
            }
        }
        caches.writes.keep(write, served.clone(), KNOWN_WRITES);
        Ok(served)
    }

    fn lock(&self) -> MutexGuard<'_, Caches> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Generations<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Generations<K, V> {
    fn find(&mut self, key: &K, limit: usize) -> Option<V> {
        if let Some(known) = self.young.get(key) {
            return Some(known.clone());
        }
        let known = self.old.get(key)?.clone();
        self.keep(key.clone(), known.clone(), limit);
        Some(known)
    }

    fn keep(&mut self, key: K, value: V, limit: usize) {
        if self.young.len() >= limit {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_entries_are_kept_and_others_are_evicted() {
        let mut caches = Generations::default();
        for number in 0..100 {
            caches.keep(number, number, 4);
            assert_eq!(caches.find(&0, 4), Some(0), "used all the time");
        }
        assert!(caches.young.len() + caches.old.len() <= 8);
        assert_eq!(caches.find(&1, 4), None);
    }
}
