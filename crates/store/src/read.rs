//! Read requests and their results.

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::revision::Revision;

/// The state to read: how recent it must be.
///
/// In-process engines have a single copy of the data, so only [`At::Revision`] makes a difference. Engines over a
/// remote store may serve reads from a mirror; these levels define which writes the mirror must be proven to include.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// The latest state: linearizable. Includes every write that any process had acknowledged before the read began.
    #[default]
    Latest,
    /// Exactly this past revision, which must not be compacted.
    Revision(Revision),
    /// Any state that includes this revision. Fails with [`crate::Error::FutureRevision`] if the store has not
    /// reached it; does not wait.
    NotOlderThan(Revision),
    /// The state in memory. Includes every write that this process has made or observed through the same engine, and
    /// may lack later writes of other processes. For data that the transaction depends on anyway (a conflict returns
    /// the newer state), and for checks that kube-apiserver makes against an informer.
    Cached,
}

impl At {
    /// The requested past revision; `None` for a current state.
    pub(crate) fn past(self) -> Option<Revision> {
        match self {
            At::Revision(revision) => Some(revision),
            At::Latest | At::NotOlderThan(_) | At::Cached => None,
        }
    }

    /// Returns an error if the current state `found` is older than requested.
    pub(crate) fn check(self, found: Revision) -> Result<()> {
        match self {
            At::NotOlderThan(requested) if requested > found => {
                Err(Error::FutureRevision { requested, current: found })
            }
            _ => Ok(()),
        }
    }
}

/// A key's entry, if it exists, with the revision of the snapshot.
#[derive(Clone, Debug)]
pub struct Get {
    /// The entry, if the key exists.
    pub entry: Option<Entry>,
    /// The revision of the snapshot.
    pub revision: Revision,
}

/// A range of keys in order.
#[derive(Clone, Debug, Default)]
pub struct RangeRequest {
    /// Only keys that start with this.
    pub prefix: Vec<u8>,
    /// Start with this key, or the first one after it; `None` for the first of the prefix.
    pub start: Option<Vec<u8>>,
    /// Maximum number of entries; 0 for no limit.
    pub limit: usize,
    /// The state to read.
    pub at: At,
    /// Also count the entries beyond the limit, at the cost of iterating over them.
    pub count_remaining: bool,
}

impl RangeRequest {
    /// All keys that start with `prefix`, at the latest revision.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }

    /// Starts at this key.
    #[must_use]
    pub fn start(mut self, start: impl Into<Vec<u8>>) -> Self {
        self.start = Some(start.into());
        self
    }

    /// Limits the number of entries.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Reads this revision.
    #[must_use]
    pub fn at(mut self, revision: Revision) -> Self {
        self.at = At::Revision(revision);
        self
    }

    /// Counts the entries beyond the limit.
    #[must_use]
    pub fn count_remaining(mut self) -> Self {
        self.count_remaining = true;
        self
    }

    /// The first key of the iteration: the later of prefix and start.
    pub(crate) fn first_key(&self) -> &[u8] {
        match &self.start {
            Some(start) if *start > self.prefix => start,
            _ => &self.prefix,
        }
    }
}

/// Entries in key order, all of one snapshot.
#[derive(Clone, Debug)]
pub struct Range {
    /// The entries.
    pub entries: Vec<Entry>,
    /// True if there are more entries beyond the limit.
    pub more: bool,
    /// Number of entries beyond the limit, if requested.
    pub remaining: Option<u64>,
    /// The revision of the snapshot.
    pub revision: Revision,
}

/// The number of keys with a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Number of keys that start with the prefix.
    pub count: u64,
    /// The revision of the snapshot.
    pub revision: Revision,
}
