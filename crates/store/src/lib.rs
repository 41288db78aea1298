//! Revisioned key-value store, on which the rest of Coracle is built.
//!
//! It stores keys, values and revisions, and contains nothing specific to Kubernetes. Its semantics are etcd's,
//! because Kubernetes defines `resourceVersion` in terms of them:
//!
//! - one global, strictly increasing [`Revision`]; every write creates exactly one;
//! - conditional puts and deletes, small transactions, an update helper ([`Store::update`]);
//! - reads and ordered ranges at the latest or at any past revision that is kept, each with the revision of its
//!   snapshot;
//! - watches: history first, then live, in order, without gaps or duplicates;
//! - compaction of old revisions, expiry of keys;
//! - scopes: a [`Store`] confined to a key prefix ([`Store::scope`]), optionally over shared base entries
//!   ([`Store::over`]).
//!
//! Three engines implement the [`Engine`] trait: [`memory`], [`disk`] and `etcd` (with the feature of that name). All
//! of them pass the test suite in `contract`.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use coracle_store::{Expect, Put, memory};
//!
//! let store = memory::open(memory::Options::default());
//! let first = store.put(Put::new("fruit/apple", "red").expect(Expect::Absent)).await?;
//! let apple = store.get("fruit/apple").await?.entry.unwrap();
//! assert_eq!(apple.value(), "red");
//! assert_eq!(apple.mod_revision(), first.revision);
//! # store.close().await?;
//! # Ok::<(), coracle_store::Error>(()) }).unwrap();
//! ```

mod codec;
mod compact;
mod engine;
mod entry;
mod error;
mod expire;
mod guard;
mod health;
mod history;
mod hub;
mod index;
mod keeper;
mod key;
mod local;
mod packed;
mod read;
mod revision;
mod store;
pub mod transfer;
mod txn;
mod watch;

#[cfg(any(test, feature = "testing"))]
pub mod contract;

pub use compact::CompactionPolicy;
#[cfg(feature = "etcd")]
pub use engine::etcd;
pub use engine::layered::{Base, is_whiteout, shown_over};
pub use engine::{BoxFuture, Engine, Stats, disk, memory};
pub use entry::{Entry, EntryId, EntryParts};
pub use error::{Conflict, Error, Result};
pub use guard::Guard;
pub use key::{MAX_KEY_BYTES, prefix_end};
pub use read::{At, Count, Get, Range, RangeRequest};
pub use revision::Revision;
pub use store::{Store, Update, Updated};
pub use transfer::Progress;
pub use txn::{Committed, Delete, Expect, MAX_TXN_BYTES, MAX_TXN_OPS, MAX_VALUE_BYTES, Op, Put, Txn};
pub use watch::{ProgressHandle, Watch, WatchEvent, WatchRequest, WatchSource};
