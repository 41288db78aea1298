//! A scope over a base: entries that are there without having been written.
//!
//! The base is shared by as many scopes as like, and a scope stores only where it differs. A
//! key of the base that is written is a key like any other from then on. One that is deleted
//! is kept as an empty value, a *whiteout*; so values of keys of the base are never empty. The
//! rest of the store behaves as if the base had been written, in one commit, at the revision
//! that it names: readers and watchers that come from before it are told that this is gone.
//!
//! Two things bring back what the base says: deleting a whole prefix, which is for scopes that
//! go, and expiry, which is for keys that no base should have.

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

/// Entries that are there without having been written.
pub trait Base: Send + Sync + 'static {
    /// The revision that all of them carry. It has been made, by a commit that wrote nothing a
    /// scope over this base can see.
    fn revision(&self) -> Revision;

    /// The entry of a key, relative to the scope.
    fn get(&self, key: &[u8]) -> Option<Entry>;

    /// Whether there is one.
    fn contains(&self, key: &[u8]) -> bool;

    /// The keys that start with `prefix`, ascending.
    fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>>;
}

/// The engine of a scope over a base.
pub(crate) struct Layered {
    own: Store,
    base: Arc<dyn Base>,
}

/// What the scope itself says of a key of the base.
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

/// Whether an entry of a scope only says that what the base has is deleted.
pub fn is_whiteout(entry: &Entry) -> bool {
    entry.value_len() == 0
}

impl Layered {
    pub(crate) fn new(own: Store, base: Arc<dyn Base>) -> Self {
        Self { own, base }
    }

    /// What readers see of a key of the base.
    fn visible(&self, key: &[u8], own: Own) -> Option<Entry> {
        match own {
            Own::Nothing => self.base.get(key),
            Own::Whiteout(_) => None,
            Own::Live(entry) => Some(entry),
        }
    }

    /// Before the base there was another, or none: nobody knows any more.
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
