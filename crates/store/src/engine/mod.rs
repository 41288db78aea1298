//! The engine trait and its implementations.
//!
//! Engines use full keys; [`crate::Store`] implements scopes. `contract` tests the rules of this trait for every
//! engine.

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

/// A boxed future, so that [`Engine`] can be a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A revisioned key-value store.
///
/// Futures may be dropped at any time. A dropped [`Engine::commit`] may or may not have been executed; it is never
/// executed in part.
pub trait Engine: Send + Sync + 'static {
    /// Reads one key.
    fn get<'a>(&'a self, key: &'a [u8], at: At) -> BoxFuture<'a, Result<Get>>;

    /// Reads keys in order, all from one snapshot.
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range>>;

    /// Counts the keys that start with `prefix`.
    fn count<'a>(&'a self, prefix: &'a [u8], at: At) -> BoxFuture<'a, Result<Count>>;

    /// Executes a transaction that [`crate::Store`] has validated. When it returns, the write is as durable as the
    /// engine makes it, and visible to every later read.
    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed>>;

    /// Maximum number of concurrent commits that are still executed in the order in which they were first polled.
    fn commit_window(&self) -> usize {
        1
    }

    /// Starts a watch. Fails with [`crate::Error::Compacted`] if `from` is no longer kept.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Watch>>;

    /// Discards history before `revision`, which remains available to reads and watches. An earlier revision than the
    /// oldest is not an error and has no effect.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>>;

    /// Statistics.
    fn stats(&self) -> BoxFuture<'_, Result<Stats>>;

    /// Stops all tasks of the engine and waits for them; acknowledged writes are durable. Later calls fail with
    /// [`crate::Error::Closed`], and watches end. Returns the error of a store that had failed.
    fn close(&self) -> BoxFuture<'_, Result<()>>;

    /// Returns an error if writes are rejected at the moment, without any I/O. See [`crate::Store::writable`].
    fn writable(&self) -> Result<()>;
}

/// Statistics of a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// The engine's name.
    pub engine: &'static str,
    /// The latest revision.
    pub revision: Revision,
    /// The oldest kept revision.
    pub oldest: Revision,
    /// Number of keys.
    pub keys: u64,
    /// Total size of keys and values. For etcd, size of its database file.
    pub bytes: u64,
    /// Number of changes kept for past reads and watches. Zero if the engine does not report it.
    pub history: u64,
    /// Size of values that only the history needs.
    pub history_bytes: u64,
    /// Watches running on this engine.
    pub watchers: u64,
    /// Size of the engine's files on disk.
    pub disk_bytes: u64,
}
