//! Errors of the store, with the data that callers need to handle them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::entry::Entry;
use crate::key;
use crate::revision::Revision;
use crate::txn::Expect;

/// Result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed condition: the expected and the actual state of a key.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The key, relative to the scope of the store handle.
    pub key: Vec<u8>,
    /// The condition of the transaction.
    pub expected: Expect,
    /// The key's entry when the transaction was rejected, so that the caller need not read it again.
    pub found: Option<Entry>,
}

/// Errors of a store.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A condition of the transaction did not hold; nothing was written.
    #[error("conflict on key {}", key::display(&.0.key))]
    Conflict(Box<Conflict>),
    /// The requested revision has been compacted.
    #[error("revision {requested} has been compacted, the oldest kept is {oldest}")]
    Compacted {
        /// The requested revision.
        requested: Revision,
        /// The oldest revision available to reads and watches.
        oldest: Revision,
    },
    /// The requested revision does not exist yet.
    #[error("revision {requested} is in the future, the latest is {current}")]
    FutureRevision {
        /// The requested revision.
        requested: Revision,
        /// The latest revision.
        current: Revision,
    },
    /// The key is invalid.
    #[error("invalid key: {reason}")]
    InvalidKey {
        /// The violated rule.
        reason: &'static str,
    },
    /// The transaction is invalid.
    #[error("invalid transaction: {reason}")]
    InvalidTxn {
        /// The violated rule.
        reason: String,
    },
    /// A key, value or transaction exceeds its limit.
    #[error("{what} of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// The part that is too large.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The guard of the handle no longer holds; nothing was written.
    #[error("the guard {guard} no longer holds")]
    GuardLost {
        /// The name of the guard.
        guard: Arc<str>,
        /// The guard's key, relative to the root of the store.
        key: Vec<u8>,
    },
    /// [`crate::Store::update`] got a conflict on every attempt.
    #[error("gave up updating key {} after {attempts} conflicts", key::display(.key))]
    Contention {
        /// The key.
        key: Vec<u8>,
        /// Number of attempts.
        attempts: u32,
    },
    /// No space left for the log. Nothing was written; reads work, and writes work again once there is space.
    #[error("no space left on the store's disk")]
    DiskFull {
        /// The error of the operating system.
        #[source]
        source: Arc<io::Error>,
    },
    /// Writing or syncing the log failed, so the state on disk is unknown. All writes are rejected until the store is
    /// reopened.
    #[error("the store refuses writes since its log failed ({reason}); restart the server to reopen it")]
    Poisoned {
        /// The first failure with all of its sources, including the error of the operating system.
        reason: Arc<str>,
    },
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
    /// Another process has opened the directory.
    #[error("{} is in use by another process; stop it, or choose another directory", .path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The format of the files is not supported.
    #[error(
        "{} has format version {found}, this program reads up to {supported}; use a newer program",
        .path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// The format version of the file.
        found: u32,
        /// The newest supported version.
        supported: u32,
    },
    /// Durable data is corrupt.
    #[error("{} is damaged at offset {offset}: {detail}; {way_out}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset of the damage in the file.
        offset: u64,
        /// Description of the damage.
        detail: String,
        /// How to recover.
        way_out: Box<crate::disk::WayOut>,
    },
    /// The operating system rejected a file operation.
    #[error("cannot {operation} {}", .path.display())]
    Io {
        /// The operation.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: Arc<io::Error>,
    },
    /// A task of the store panicked; the panic is in the log.
    #[error("the store failed: {0}")]
    Internal(String),
    /// Invalid settings, such as a malformed endpoint.
    #[error("{0}")]
    Config(String),
    /// The etcd cluster does not respond; nothing was written.
    #[error("etcd is unavailable: {0}; check that it runs and that its addresses are right")]
    Unavailable(String),
    /// The etcd cluster stopped responding while it processed the transaction, which may or may not have been
    /// committed.
    #[error("the outcome of the write is unknown: {0}")]
    OutcomeUnknown(String),
    /// A value in etcd that was not written by this program.
    #[error("the value of key {} cannot be read: {detail}; it was not written by this program", key::display(.key))]
    Undecodable {
        /// The key.
        key: Vec<u8>,
        /// Description of the problem.
        detail: &'static str,
    },
    /// The etcd cluster rejected the request.
    #[error("etcd refused the request: {0}")]
    Refused(String),
}

impl Error {
    pub(crate) fn conflict(key: &[u8], expected: Expect, found: Option<Entry>) -> Self {
        Error::Conflict(Box::new(Conflict { key: key.to_vec(), expected, found }))
    }
}

/// Formats an error with its sources on one line. A source that is contained in the text already is omitted, because
/// some errors repeat it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        source = error.source();
    }
    text.replace('\n', " ")
}
