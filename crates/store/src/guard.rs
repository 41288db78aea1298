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

/// What commits through a handle depend on. See [`crate::Store::guard`].
pub struct Guard {
    name: Arc<str>,
    /// In the engine's terms: it lies outside of the scopes of those who depend on it.
    key: Vec<u8>,
    holds: Holds,
    /// The revision of the last entry that let commits pass; 0 before the first.
    seen: AtomicU64,
}

impl Guard {
    pub(crate) fn new(name: &str, key: Vec<u8>, holds: Holds) -> Self {
        Self { name: name.into(), key, holds, seen: AtomicU64::new(0) }
    }

    /// Commits a transaction in the engine's terms if the guard holds.
    pub(crate) async fn commit(&self, engine: &dyn Engine, txn: Txn) -> Result<Committed> {
        for _ in 0..MAX_ATTEMPTS {
            // No key has revision 0, so the first attempt finds out what there is.
            let expect = Expect::ModRevision(Revision::new(self.seen.load(Ordering::Relaxed)));
            let mut guarded = txn.clone();
            // Before all others: a writer that has lost the guard is told so, and not of other conflicts.
            guarded.checks.insert(0, (self.key.clone(), expect));
            match engine.commit(guarded).await {
                Err(Error::Conflict(conflict)) if self.is_own(&conflict, expect) => {
                    self.see(conflict.found.as_ref())?;
                }
                committed => return committed,
            }
        }
        Err(Error::Contention { key: self.key.clone(), attempts: MAX_ATTEMPTS })
    }

    /// Whether the guard's condition failed, and not one of the transaction on the same key.
    fn is_own(&self, conflict: &Conflict, expect: Expect) -> bool {
        conflict.key == self.key && conflict.expected == expect
    }

    fn see(&self, found: Option<&Entry>) -> Result<()> {
        match found.filter(|_| (self.holds)(found)) {
            Some(entry) => {
                self.seen.store(entry.mod_revision().get(), Ordering::Relaxed);
                Ok(())
            }
            None => Err(Error::GuardLost { guard: Arc::clone(&self.name) }),
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
}
