//! A scope over a base: shared entries that every scope has without storing them.
//!
//! Any number of scopes share a base; a scope stores only its differences. A written key of the base is an ordinary
//! key from then on. A deleted one is stored as an empty value, a *whiteout*; therefore values of the base's keys are
//! never empty. The store behaves as if the base had been written, in one commit, at the revision that it names:
//! reads and watches of earlier revisions fail as compacted.
//!
//! Two operations restore the base's entries: deleting a whole prefix, which is meant for deleting a scope, and
//! expiry, which keys of a base must not have.

mod commit;
mod range;
mod watch;

use std::sync::Arc;

pub use watch::shown_over;

use super::{BoxFuture, Engine, Stats};
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::read::{At, Count, Get, Range, RangeRequest};
use crate::revision::Revision;
use crate::store::Store;
use crate::txn::{Committed, Txn};
use crate::watch::{Watch, WatchRequest};

/// Entries that a scope has without storing them.
pub trait Base: Send + Sync + 'static {
    /// The revision of all entries. It exists, created by a commit that wrote nothing visible in a scope over this
    /// base.
    fn revision(&self) -> Revision;

    /// The entry of a key, relative to the scope.
    fn get(&self, key: &[u8]) -> Option<Entry>;

    /// Returns true if the base has the key.
    fn contains(&self, key: &[u8]) -> bool;

    /// The keys that start with `prefix`, ascending.
    fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>>;
}

/// The engine of a scope over a base.
pub(crate) struct Layered {
    own: Store,
    base: Arc<dyn Base>,
}

/// The scope's own state of a key of the base.
enum Own {
    Nothing,
    Whiteout(Revision),
    Live(Entry),
}

impl Own {
    fn of(entry: Option<Entry>) -> Self {
        match entry {
            None => Own::Nothing,
            Some(entry) if is_whiteout(&entry) => Own::Whiteout(entry.mod_revision()),
            Some(entry) => Own::Live(entry),
        }
    }
}

/// Returns true if an entry of a scope only marks a key of the base as deleted.
pub fn is_whiteout(entry: &Entry) -> bool {
    entry.value_len() == 0
}

impl Layered {
    pub(crate) fn new(own: Store, base: Arc<dyn Base>) -> Self {
        Self { own, base }
    }

    /// The entry of a key of the base as readers see it.
    fn visible(&self, key: &[u8], own: Own) -> Option<Entry> {
        match own {
            Own::Nothing => self.base.get(key),
            Own::Whiteout(_) => None,
            Own::Live(entry) => Some(entry),
        }
    }

    /// Rejects revisions before the base, at which another base or none was visible; that state is not recorded.
    fn check_age(&self, at: At) -> Result<()> {
        match at {
            At::Revision(requested) if requested < self.base.revision() => {
                Err(Error::Compacted { requested, oldest: self.base.revision() })
            }
            _ => Ok(()),
        }
    }

    async fn read(&self, key: &[u8], at: At) -> Result<Get> {
        let Get { entry, revision } = self.own.get_at(key, at).await?;
        if !self.base.contains(key) {
            return Ok(Get { entry, revision });
        }
        self.check_age(at)?;
        Ok(Get { entry: self.visible(key, Own::of(entry)), revision })
    }
}

impl Engine for Layered {
    fn get<'a>(&'a self, key: &'a [u8], at: At) -> BoxFuture<'a, Result<Get>> {
        Box::pin(self.read(key, at))
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range>> {
        Box::pin(self.read_range(request))
    }

    fn count<'a>(&'a self, prefix: &'a [u8], at: At) -> BoxFuture<'a, Result<Count>> {
        Box::pin(self.read_count(prefix, at))
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed>> {
        Box::pin(self.write(txn))
    }

    fn commit_window(&self) -> usize {
        self.own.commit_window()
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Watch>> {
        Box::pin(self.start_watch(request))
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.own.compact(revision))
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        Box::pin(self.own.stats())
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.own.close())
    }

    fn writable(&self) -> Result<()> {
        self.own.writable()
    }
}
