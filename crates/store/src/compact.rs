//! When history is given up.

use std::time::Duration;

use coracle_base::Timestamp;

use crate::revision::Revision;

/// How much history to keep, for reads of past revisions and watches that start there.
///
/// Compaction is automatic: whatever passes either limit goes. A watcher or a paged list
/// that needs more than this gets [`crate::Error::Compacted`] and starts over.
#[derive(Clone, Debug)]
pub struct CompactionPolicy {
    /// Changes older than this go. Five minutes, as kube-apiserver tells its etcd.
    pub max_age: Duration,
    /// Beyond this many bytes of superseded values the oldest changes go, however young, so
    /// that a burst of writes cannot fill the memory.
    pub max_bytes: u64,
}

impl Default for CompactionPolicy {
    fn default() -> Self {
        Self { max_age: Duration::from_secs(300), max_bytes: 64 << 20 }
    }
}

impl CompactionPolicy {
    /// The revision to compact to, given the kept commits (revision, time, bytes), oldest
    /// first, that take up `bytes` in all.
    pub(crate) fn target(
        &self,
        now: Timestamp,
        mut bytes: u64,
        commits: impl Iterator<Item = (Revision, Timestamp, u64)>,
    ) -> Option<Revision> {
        let cutoff = now - self.max_age;
        // Going below the limit by a quarter keeps the next write from compacting again.
        let enough = if bytes > self.max_bytes { self.max_bytes / 4 * 3 } else { u64::MAX };
        let mut target = None;
        for (revision, at, cost) in commits {
            target = Some(revision);
            if at > cutoff && bytes <= enough {
                break;
            }
            bytes -= cost;
        }
        target
    }

    /// When the commit made at `at` is to go, with some slack so that many go together.
    pub(crate) fn deadline(&self, at: Timestamp) -> Timestamp {
        at + self.max_age + self.max_age / 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(max_bytes: u64, now_s: u64) -> Option<u64> {
        let policy = CompactionPolicy { max_age: Duration::from_secs(10), max_bytes };
        // Revisions 5 to 9, made at seconds 5 to 9, of 100 bytes each.
        let commits = (5..10).map(|n| (Revision::new(n), Timestamp::from_millis(n * 1000), 100));
        policy.target(Timestamp::from_millis(now_s * 1000), 500, commits).map(Revision::get)
    }

    #[test]
    fn old_commits_go_and_young_ones_stay() {
        assert_eq!(target(1_000, 10), Some(5));
        assert_eq!(target(1_000, 16), Some(7));
        assert_eq!(target(1_000, 100), Some(9), "the latest stays readable");
    }

    #[test]
    fn too_many_bytes_go_however_young() {
        assert_eq!(target(400, 10), Some(7));
        assert_eq!(target(0, 10), Some(9));
    }
}
