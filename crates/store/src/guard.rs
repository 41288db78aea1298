//! A condition on one key for every commit through a store handle, whatever its scope is.
//!
//! For writers that may only act while they hold something that can be taken from them, such as a lease. The key may
//! be rewritten as long as its content still satisfies the guard; a commit that conflicts with such a write is
//! retried, so renewing the key does not disturb the writers that depend on it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Engine;
use crate::entry::Entry;
use crate::error::{Conflict, Error, Result};
use crate::key;
use crate::revision::Revision;
use crate::txn::{Committed, Expect, Txn};

/// Maximum retries of a commit because the guard's key was rewritten meanwhile. Each retry means another write of
/// that key between two consecutive commits; a key that is written more often is no guard.
const MAX_ATTEMPTS: u32 = 64;

/// Returns true if the entry of the guard's key satisfies the guard; `None` means that the key does not exist.
type Holds = Box<dyn Fn(Option<&Entry>) -> bool + Send + Sync>;

/// A condition for commits through a handle. See [`crate::Store::guard`].
pub struct Guard {
    name: Arc<str>,
    /// The full key: it may be outside of the scopes of the handles that use it.
    key: Vec<u8>,
    holds: Holds,
    /// The revision of the last entry that satisfied the guard; 0 before the first.
    seen: AtomicU64,
}

/// Commits a transaction with full keys if every guard holds.
pub(crate) async fn commit(guards: &[Arc<Guard>], engine: &dyn Engine, txn: Txn) -> Result<Committed> {
    for _ in 0..MAX_ATTEMPTS {
        let conditions: Vec<_> = guards.iter().map(|guard| guard.condition()).collect();
        let mut guarded = txn.clone();
        // Before other conditions, so that a writer whose guard is lost gets that error and not another conflict.
        guarded.checks.splice(0..0, conditions.iter().cloned());
        let conflict = match engine.commit(guarded).await {
            Err(Error::Conflict(conflict)) => conflict,
            committed => return committed,
        };
        // The transaction may have a condition of its own on the same key.
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

    /// Records that the entry of this revision satisfies the guard, which saves the first commit a retry.
    pub fn passed_at(&self, revision: Revision) {
        self.seen.fetch_max(revision.get(), Ordering::Relaxed);
    }

    fn condition(&self) -> (Vec<u8>, Expect) {
        // No key has revision 0, so the first attempt conflicts and returns the current entry.
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
    async fn conflict_of_the_transaction_itself_is_returned() {
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
