//! Definitions that were compiled, for whoever asks next.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_store::{Entry, Revision};

use super::definition::{Definition, Served, fingerprint};
use crate::error::Result;

/// How many definitions are kept in one generation, of which there are two. One that was used takes a
/// fraction of its text, so that this is some tens of megabytes if all are large and in use.
const GENERATION: usize = 512;

/// How many writes of definitions are known to be one of those. They take some hundred bytes each, and
/// clusters share definitions but not writes.
const KNOWN_WRITES: usize = 8 * GENERATION;

/// What is caches. What nobody asked for while a whole generation was filled is forgotten.
#[derive(Default)]
pub(crate) struct Definitions {
    caches: Mutex<Caches>,
}

#[derive(Default)]
struct Caches {
    /// By the name and the revision of their write, which is of one cluster only.
    writes: Generations<(Box<[u8]>, Revision), Option<Served>>,
    /// By what they say.
    definitions: Generations<u64, Arc<Definition>>,
}

impl Definitions {
    /// What is served of a definition, if anything.
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
    fn what_is_used_stays_and_the_rest_goes() {
        let mut caches = Generations::default();
        for number in 0..100 {
            caches.keep(number, number, 4);
            assert_eq!(caches.find(&0, 4), Some(0), "used all the time");
        }
        assert!(caches.young.len() + caches.old.len() <= 8);
        assert_eq!(caches.find(&1, 4), None);
    }
}
