//! The trait every engine implements, and the engines.
//!
//! Engines see full keys: scopes are the business of [`crate::Store`]. Every rule written
//! here is tested for all of them by `contract`.

use std::pin::Pin;

use crate::error::Result;
use crate::read::{At, Count, Get, Range, RangeRequest};
use crate::revision::Revision;
use crate::txn::{Committed, Txn};
use crate::watch::{Watch, WatchRequest};

pub mod disk;
#[cfg(feature = "etcd")]
pub mod etcd;
pub(crate) mod layered;
pub(crate) mod local;
pub mod memory;

/// A boxed future, so that engines can stand behind one pointer.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A revisioned store of bytes.
///
/// Futures may be dropped at any time. A dropped [`Engine::commit`] may or may not have been
/// carried out; it is never carried out in part.
pub trait Engine: Send + Sync + 'static {
    /// One key.
    fn get<'a>(&'a self, key: &'a [u8], at: At) -> BoxFuture<'a, Result<Get>>;

    /// Keys in order, all from one snapshot.
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range>>;

    /// How many keys start with `prefix`.
    fn count<'a>(&'a self, prefix: &'a [u8], at: At) -> BoxFuture<'a, Result<Count>>;

    /// Carries out a transaction that [`crate::Store`] has validated. When it returns, the
    /// write is as durable as the engine makes it and visible to every later read.
    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed>>;

    /// How many commits may be under way at once and still be carried out in the order in
    /// which they were first polled.
    fn commit_window(&self) -> usize {
        1
    }

    /// Starts a watch. Fails with [`crate::Error::Compacted`] if `from` is no longer kept.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Watch>>;

    /// Gives up history before `revision`, which stays readable and watchable from. Going
    /// back is not an error and does nothing.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>>;

    /// What there is and what it costs.
    fn stats(&self) -> BoxFuture<'_, Result<Stats>>;

    /// Stops everything the engine runs and waits for it; what was acknowledged is durable.
    /// Later calls fail with [`crate::Error::Closed`]. Watches end with it too. Returns the
    /// failure in which the store ended, if it did.
    fn close(&self) -> BoxFuture<'_, Result<()>>;

    /// Whether writes are accepted at the moment, without any I/O. See [`crate::Store::writable`].
    fn writable(&self) -> Result<()>;
}

/// Figures about a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// The engine's name.
    pub engine: &'static str,
    /// The latest revision.
    pub revision: Revision,
    /// The oldest revision kept.
    pub oldest: Revision,
    /// Keys that exist.
    pub keys: u64,
    /// Bytes of their keys and values. For etcd: of its database file.
    pub bytes: u64,
    /// Changes kept for past reads and watches. Zero where the engine does not tell.
    pub history: u64,
    /// Bytes of values that only the history still needs.
    pub history_bytes: u64,
    /// Watches running through this handle's engine.
    pub watchers: u64,
    /// Bytes on disk, in files of the engine.
    pub disk_bytes: u64,
}
