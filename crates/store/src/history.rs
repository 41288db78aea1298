//! Kept commits, oldest first, for watches that start in the past.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use coracle_base::Timestamp;

use crate::compact::CompactionPolicy;
use crate::entry::Version;
use crate::error::{Error, Result};
use crate::index::Commit;
use crate::revision::Revision;

/// Memory of a kept commit besides its values: its allocation and a tombstone.
const COMMIT_OVERHEAD_BYTES: u64 = 160;

/// Maximum number of commits removed per lock acquisition.
const DROP_CHUNK: usize = 1024;

pub(crate) struct History {
    state: Mutex<State>,
}

struct State {
    /// In ascending order. Their revisions have no gaps, unless they mirror a remote store that has other writers.
    commits: VecDeque<Arc<Commit>>,
    /// The oldest revision available to reads and watches.
    oldest: Revision,
    bytes: u64,
}

/// Figures for [`crate::Stats`] and for compaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    pub(crate) oldest: Revision,
    pub(crate) commits: u64,
    pub(crate) bytes: u64,
    /// Time of the oldest commit.
    pub(crate) since: Option<Timestamp>,
}

impl History {
    pub(crate) fn starting_at(oldest: Revision) -> Self {
        Self { state: Mutex::new(State { commits: VecDeque::new(), oldest, bytes: 0 }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under this lock panics halfway, so a poisoned lock guards valid data.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Adds commits; returns the previous size in bytes.
    pub(crate) fn push(&self, commits: &[Arc<Commit>]) -> u64 {
        let mut state = self.lock();
        let before = state.bytes;
        for commit in commits {
            debug_assert!(state.commits.back().is_none_or(|last| last.revision < commit.revision));
            state.bytes += cost(commit);
            state.commits.push_back(commit.clone());
        }
        before
    }

    pub(crate) fn oldest(&self) -> Revision {
        self.lock().oldest
    }

    /// Returns an error for a revision that has been compacted.
    pub(crate) fn check(&self, requested: Revision) -> Result<()> {
        let oldest = self.oldest();
        if requested < oldest { Err(Error::Compacted { requested, oldest }) } else { Ok(()) }
    }

    /// Returns up to `limit` commits, starting at `from`.
    pub(crate) fn read(&self, from: Revision, limit: usize) -> Result<Vec<Arc<Commit>>> {
        let state = self.lock();
        if from < state.oldest {
            return Err(Error::Compacted { requested: from, oldest: state.oldest });
        }
        let skip = state.position(from);
        Ok(state.commits.range(skip..).take(limit).cloned().collect())
    }

    pub(crate) fn summary(&self) -> Summary {
        let state = self.lock();
        Summary {
            oldest: state.oldest,
            commits: state.commits.len() as u64,
            bytes: state.bytes,
            since: state.commits.front().map(|commit| commit.at),
        }
    }

    /// The revision to which the policy would compact now.
    pub(crate) fn target(&self, policy: &CompactionPolicy, now: Timestamp) -> Option<Revision> {
        let state = self.lock();
        let costs = state.commits.iter().map(|commit| (commit.revision, commit.at, cost(commit)));
        policy.target(now, state.bytes, costs).filter(|target| *target > state.oldest)
    }

    /// Discards commits before `oldest` and the versions that only they need. Returns the tombstones that no read can
    /// need any more, for the writer to purge.
    ///
    /// Must not run while something reads a revision before `oldest` without checking it again; therefore the keeper
    /// runs one compaction or snapshot at a time.
    pub(crate) fn forget(&self, oldest: Revision) -> Vec<Arc<Version>> {
        let mut dead = Vec::new();
        loop {
            let commits = self.take_before(oldest);
            if commits.is_empty() {
                return dead;
            }
            // Freed without the lock, on which readers and the writer would wait.
            for event in commits.iter().flat_map(|commit| &commit.events) {
                event.version.cut_older();
                if !event.version.is_live() {
                    dead.push(event.version.clone());
                }
            }
        }
    }

    /// Discards all commits: history restarts at `oldest`.
    #[cfg(feature = "etcd")]
    pub(crate) fn restart(&self, oldest: Revision) {
        let mut state = self.lock();
        state.oldest = state.oldest.max(oldest);
        state.bytes = 0;
        let commits = std::mem::take(&mut state.commits);
        drop(state);
        // Freed without the lock.
        drop(commits);
    }

    fn take_before(&self, oldest: Revision) -> Vec<Arc<Commit>> {
        let mut state = self.lock();
        state.oldest = state.oldest.max(oldest);
        let passed = state.position(oldest).min(DROP_CHUNK);
        let commits: Vec<_> = state.commits.drain(..passed).collect();
        state.bytes -= commits.iter().map(|commit| cost(commit)).sum::<u64>();
        if state.commits.len() < state.commits.capacity() / 4 {
            let len = state.commits.len();
            state.commits.shrink_to((len * 2).max(DROP_CHUNK));
        }
        commits
    }
}

impl State {
    /// Position of the commit of `revision`, or where it would be inserted.
    fn position(&self, revision: Revision) -> usize {
        self.commits.partition_point(|commit| commit.revision < revision)
    }
}

fn cost(commit: &Commit) -> u64 {
    let superseded = commit.events.iter().filter_map(|event| event.previous.as_ref());
    COMMIT_OVERHEAD_BYTES * commit.events.len() as u64
        + superseded.map(|version| version.memory_len() as u64).sum::<u64>()
}
