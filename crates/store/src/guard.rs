//! A condition on one key that every commit through a handle has to meet, whatever the handle's scope is.
//!
//! It is for writers that may act only while they hold something that others can take from them. The key may be
//! written again and again while it still says what it should; a commit that meets such a write is repeated, so
//! whoever keeps the key up to date does not disturb those who depend on it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Engine;
use crate::entry::Entry;
use crate::error::{Conflict, Error, Result};
use crate::key;
use crate::revision::Revision;
use crate::txn::{Committed, Expect, Txn};

/// How often a commit is repeated because the guard's key was written meanwhile. Each repetition means another write
/// of that key between two commits that follow each other at once; a key that is written more often is no guard.
const MAX_ATTEMPTS: u32 = 64;

/// Whether an entry of the guard's key (`None`: the key does not exist) lets commits pass.
type Holds = Box<dyn Fn(Option<&Entry>) -> bool + Send + Sync>;

/// The condition of commits through a handle. See [`crate::Store::guard`].
pub struct Guard {
    name: Arc<str>,
    /// In the engine's terms: it lies outside of the scopes of those who depend on it.
    key: Vec<u8>,
    holds: Holds,
    /// The revision of the last entry that let commits pass; 0 before the first.
    seen: AtomicU64,
}

/// Commits a transaction in the engine's terms if every guard holds.
pub(crate) async fn commit(guards: &[Arc<Guard>], engine: &dyn Engine, txn: Txn) -> Result<Committed> {
    for _ in 0..MAX_ATTEMPTS {
        let conditions: Vec<_> = guards.iter().map(|guard| guard.condition()).collect();
        let mut guarded = txn.clone();
        // Before all others: a writer that has lost a guard gets that error, and not another conflict.
        guarded.checks.splice(0..0, conditions.iter().cloned());
        let conflict = match engine.commit(guarded).await {
            Err(Error::Conflict(conflict)) => conflict,
            committed => return committed,
        };
        // A condition of the transaction itself may be on the same key, with another expectation.
        let lost = conditions.iter().position(|(key, expect)| is_condition(&conflict, key, *expect));
        match lost {
            Some(index) => guards[index].see(conflict.found.as_ref())?,
            None => return Err(Error::Conflict(conflict)),
        }
    }
    let key = guards.first().map(|guard| guard.key.clone()).unwrap_or_default();
    Err(Error::Contention { key, attempts: MAX_ATTEMPTS })
}

fn is_condition(conflict: &Conflict, key: &[u8], expect: Expect) -> bool {
    conflict.key == key && conflict.expected == expect
}

impl Guard {
    pub(crate) fn new(name: &str, key: Vec<u8>, holds: Holds) -> Self {
        Self { name: name.into(), key, holds, seen: AtomicU64::new(0) }
    }

    /// Notes that the entry of this revision lets commits pass, so that the first commit need not find it out.
    pub fn passed_at(&self, revision: Revision) {
        self.seen.fetch_max(revision.get(), Ordering::Relaxed);
    }

    fn condition(&self) -> (Vec<u8>, Expect) {
        // No key has revision 0, so the first attempt finds the current entry.
        let seen = Revision::new(self.seen.load(Ordering::Relaxed));
        (self.key.clone(), Expect::ModRevision(seen))
    }

    fn see(&self, found: Option<&Entry>) -> Result<()> {
        match found.filter(|_| (self.holds)(found)) {
            Some(entry) => {
                self.seen.store(entry.mod_revision().get(), Ordering::Relaxed);
                Ok(())
            }
            None => Err(Error::GuardLost { guard: Arc::clone(&self.name), key: self.key.clone() }),
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("name", &self.name).field("key", &key::display(&self.key)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use crate::txn::Put;

    fn is_a(entry: Option<&Entry>) -> bool {
        entry.is_some_and(|entry| entry.value_bytes().starts_with(b"a"))
    }

    #[tokio::test]
    async fn conflicts_of_the_transaction_itself_are_returned() {
        let store: Store = crate::memory::open(crate::memory::Options::default());
        let guarded = store.guarded(&store.guard("lock", "l", is_a));
        store.put(Put::new("l", "a1")).await.unwrap();
        store.put(Put::new("k", "1")).await.unwrap();
        let conflict = guarded.put(Put::new("k", "2").expect(Expect::Absent)).await;
        assert!(matches!(conflict, Err(Error::Conflict(conflict)) if conflict.key == b"k"));
        let stale = guarded.put(Put::new("l", "a2").expect(Expect::Absent)).await;
        assert!(matches!(stale, Err(Error::Conflict(conflict)) if conflict.key == b"l"));
    }

    #[tokio::test]
    async fn commit_needs_every_guard_of_the_handle() {
        let store: Store = crate::memory::open(crate::memory::Options::default());
        let first = store.put(Put::new("first", "a")).await.unwrap();
        store.put(Put::new("second", "a")).await.unwrap();
        let (one, two) = (store.guard("one", "first", is_a), store.guard("two", "second", is_a));
        one.passed_at(first.revision);
        let guarded = store.guarded(&one).guarded(&two);
        guarded.put(Put::new("k", "1")).await.unwrap();
        store.put(Put::new("first", "ab")).await.unwrap();
        guarded.put(Put::new("k", "2")).await.unwrap();
        store.put(Put::new("second", "b")).await.unwrap();
        let lost = guarded.put(Put::new("k", "3")).await;
        assert!(matches!(lost, Err(Error::GuardLost { guard, key }) if &*guard == "two" && key == b"second"));
        assert_eq!(store.get("k").await.unwrap().entry.unwrap().value(), "2");
    }
}
