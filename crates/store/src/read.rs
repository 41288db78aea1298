//! What a reader asks for and gets.

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::revision::Revision;

/// The state to read: how recent it must be.
///
/// Engines in this process have one copy of everything, so only [`At::Revision`] makes a difference there. Engines
/// over a remote store may keep a copy that follows it; these levels say what that copy must be proven to include.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// The latest: linearizable. Sees every write acknowledged before the read began, by any process.
    #[default]
    Latest,
    /// Exactly this past revision, which is still kept.
    Revision(Revision),
    /// Any state that includes this revision. Fails with [`crate::Error::FutureRevision`] if the store has not come
    /// that far, and does not wait.
    NotOlderThan(Revision),
    /// The state in memory. Sees every write that this process has made or seen through the same engine, and may
    /// lack later writes of other processes. For facts that the transaction depends on anyway (a conflict returns
    /// the newer state), and for checks that kube-apiserver makes against an informer.
    Cached,
}

impl At {
    /// The past revision asked for; `None`: a current state.
    pub(crate) fn past(self) -> Option<Revision> {
        match self {
            At::Revision(revision) => Some(revision),
            At::Latest | At::NotOlderThan(_) | At::Cached => None,
        }
    }

    /// Refuses a current state at `found` that is older than what was asked for.
    pub(crate) fn check(self, found: Revision) -> Result<()> {
        match self {
            At::NotOlderThan(requested) if requested > found => {
                Err(Error::FutureRevision { requested, current: found })
            }
            _ => Ok(()),
        }
    }
}

/// A key's entry, or its absence, with the snapshot's revision.
#[derive(Clone, Debug)]
pub struct Get {
    /// The entry, if the key exists.
    pub entry: Option<Entry>,
    /// The revision of the snapshot that was read.
    pub revision: Revision,
}

/// A question for keys in order.
#[derive(Clone, Debug, Default)]
pub struct RangeRequest {
    /// Only keys that start with this.
    pub prefix: Vec<u8>,
    /// Begin with this key, or the first one after it; `None`: with the first of the prefix.
    pub start: Option<Vec<u8>>,
    /// At most this many entries; 0: all of them.
    pub limit: usize,
    /// When.
    pub at: At,
    /// Also count the entries beyond the limit, at the cost of walking over them.
    pub count_remaining: bool,
}

impl RangeRequest {
    /// All keys that start with `prefix`, at the latest revision.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }

    /// Begin at this key.
    #[must_use]
    pub fn start(mut self, start: impl Into<Vec<u8>>) -> Self {
        self.start = Some(start.into());
        self
    }

    /// At most this many entries.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// At this revision.
    #[must_use]
    pub fn at(mut self, revision: Revision) -> Self {
        self.at = At::Revision(revision);
        self
    }

    /// Count what lies beyond the limit.
    #[must_use]
    pub fn count_remaining(mut self) -> Self {
        self.count_remaining = true;
        self
    }

    /// Where the walk begins: the later of prefix and start.
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
    /// Whether there are more beyond the limit.
    pub more: bool,
    /// How many more, if that was asked for.
    pub remaining: Option<u64>,
    /// The revision of the snapshot that was read.
    pub revision: Revision,
}

/// How many keys there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Keys that start with the prefix asked for.
    pub count: u64,
    /// The revision of the snapshot that was read.
    pub revision: Revision,
}
