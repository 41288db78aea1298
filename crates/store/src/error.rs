//! What can go wrong, with the data a caller needs to decide.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::entry::Entry;
use crate::key;
use crate::revision::Revision;
use crate::txn::Expect;

/// The store's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A lost comparison: what a transaction expected of a key, and what it found instead.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The key, relative to the scope of the store that was asked.
    pub key: Vec<u8>,
    /// What the transaction asked for.
    pub expected: Expect,
    /// The key's entry when the transaction was refused, so that no second read is needed.
    pub found: Option<Entry>,
}

/// Every failure of a store.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A condition of the transaction did not hold; nothing was written.
    #[error("conflict on key {}", key::display(&.0.key))]
    Conflict(Box<Conflict>),
    /// The revision asked for is no longer kept.
    #[error("revision {requested} has been compacted, the oldest kept is {oldest}")]
    Compacted {
        /// What was asked for.
        requested: Revision,
        /// The oldest revision that can still be read and watched from.
        oldest: Revision,
    },
    /// The revision asked for has not been made yet.
    #[error("revision {requested} is in the future, the latest is {current}")]
    FutureRevision {
        /// What was asked for.
        requested: Revision,
        /// The latest revision.
        current: Revision,
    },
    /// Not a key.
    #[error("invalid key: {reason}")]
    InvalidKey {
        /// Why not.
        reason: &'static str,
    },
    /// Not a transaction.
    #[error("invalid transaction: {reason}")]
    InvalidTxn {
        /// Why not.
        reason: String,
    },
    /// A key, value or transaction over its limit.
    #[error("{what} of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The guard of the handle does not hold any more; nothing was written.
    #[error("the guard {guard} does not hold any more")]
    GuardLost {
        /// The name of the guard.
        guard: Arc<str>,
        /// Its key, from the root of the store.
        key: Vec<u8>,
    },
    /// [`crate::Store::update`] lost every one of its attempts.
    #[error("gave up updating key {} after {attempts} conflicts", key::display(.key))]
    Contention {
        /// The key.
        key: Vec<u8>,
        /// How often it was tried.
        attempts: u32,
    },
    /// No space left for the log. Nothing was written; reads go on, and writes will too once
    /// there is space.
    #[error("no space left on the store's disk")]
    DiskFull {
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// Writing or syncing the log failed, so what is on the disk is unknown. All writes are
    /// refused until the store is opened again.
    #[error("the store refuses writes since its log failed ({reason}); restart the server to reopen it")]
    Poisoned {
        /// The first failure with all of its sources, the system's error among them.
        reason: Arc<str>,
    },
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
    /// Another process has the directory open.
    #[error("{} is in use by another process; stop it, or choose another directory", .path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The files are of a format this program does not know.
    #[error(
        "{} has format version {found}, this program reads up to {supported}; use a newer program",
        .path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version known.
        supported: u32,
    },
    /// Bytes that were durable are not what they were.
    #[error("{} is damaged at offset {offset}: {detail}; {way_out}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        detail: String,
        /// What can be done about it.
        way_out: Box<crate::disk::WayOut>,
    },
    /// The system refused a file operation.
    #[error("cannot {operation} {}", .path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// A part of the store itself failed; its panic is in the log.
    #[error("the store failed: {0}")]
    Internal(String),
    /// Settings that cannot work, such as a malformed endpoint.
    #[error("{0}")]
    Config(String),
    /// The etcd cluster does not answer; nothing was written.
    #[error("etcd is unavailable: {0}; check that it runs and that its addresses are right")]
    Unavailable(String),
    /// The etcd cluster stopped answering while it had the transaction: it may or may not
    /// have been committed.
    #[error("the outcome of the write is unknown: {0}")]
    OutcomeUnknown(String),
    /// A value in etcd that this program did not write.
    #[error("the value of key {} cannot be read: {detail}; it was not written by this program", key::display(.key))]
    Undecodable {
        /// The key.
        key: Vec<u8>,
        /// What is wrong with it.
        detail: &'static str,
    },
    /// The etcd cluster refused the request.
    #[error("etcd refused the request: {0}")]
    Refused(String),
}

impl Error {
    pub(crate) fn conflict(key: &[u8], expected: Expect, found: Option<Entry>) -> Self {
        Error::Conflict(Box::new(Conflict { key: key.to_vec(), expected, found }))
    }
}

/// An error with its sources on one line. A source that the text already contains is left out:
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
