//! Compaction policy: when history is discarded.

use std::time::Duration;

use coracle_base::Timestamp;

use crate::revision::Revision;

/// How much history to keep for reads of past revisions and watches that start there.
///
/// Compaction is automatic. A watcher or a paginated list that needs older history gets [`crate::Error::Compacted`]
/// and must relist. Byte limits count only superseded values, as held in memory: current values cost nothing, and
/// long ones are packed. The log on disk packs them the same way, so these limits bound it too.
#[derive(Clone, Debug)]
pub struct CompactionPolicy {
    /// Older changes are discarded. Five minutes, the interval at which kube-apiserver compacts etcd.
    pub max_age: Duration,
    /// Above this size, changes older than `min_age` are discarded: the size that a busy server's history may have
    /// permanently.
    pub max_bytes: u64,
    /// Younger changes are kept above `max_bytes`, so that a burst of writes does not force every watcher to relist
    /// at once. Longer than the minute between two bookmarks, because a watcher reconnects from its last bookmark.
    pub min_age: Duration,
    /// Above this size the oldest changes are discarded regardless of their age, so that a burst cannot exhaust the
    /// memory. Suffices for `min_age` and its slack at 1 000 writes of 2 KiB per second.
    pub burst_bytes: u64,
}

impl Default for CompactionPolicy {
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(300),
            max_bytes: 64 << 20,
            min_age: Duration::from_secs(75),
            burst_bytes: 192 << 20,
        }
    }
}

impl CompactionPolicy {
    /// The revision to compact to, given the kept commits (revision, time, bytes), oldest first, with a total size of
    /// `bytes`.
    pub(crate) fn target(
        &self,
        now: Timestamp,
        mut bytes: u64,
        commits: impl Iterator<Item = (Revision, Timestamp, u64)>,
    ) -> Option<Revision> {
        let (old, settled) = (now - self.max_age, now - self.min_age);
        // Compacts to a fraction below the limit, so that the next write does not trigger compaction again. A small
        // fraction for young changes, because discarding them may end watches.
        let enough = if bytes > self.max_bytes { self.max_bytes / 4 * 3 } else { u64::MAX };
        let at_most = if bytes > self.burst_bytes { self.burst_bytes / 8 * 7 } else { u64::MAX };
        let mut target = None;
        for (revision, at, cost) in commits {
            target = Some(revision);
            let goes = at <= old || bytes > at_most || at <= settled && bytes > enough;
            if !goes {
                break;
            }
            bytes -= cost;
        }
        target
    }

    /// When to compact history of `bytes` bytes whose oldest commit was made at `since`, with some slack so that many
    /// commits are discarded together.
    pub(crate) fn due(&self, since: Timestamp, bytes: u64) -> Timestamp {
        if bytes > self.burst_bytes {
            since
        } else if bytes > self.max_bytes {
            since + self.min_age + self.min_age / 10
        } else {
            since + self.max_age + self.max_age / 10
        }
    }

    /// Returns true if growth from `before` to `after` bytes makes compaction due earlier.
    pub(crate) fn is_due_earlier_after(&self, before: u64, after: u64) -> bool {
        after > self.burst_bytes || before <= self.max_bytes && after > self.max_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(max_bytes: u64, burst_bytes: u64) -> CompactionPolicy {
        let (max_age, min_age) = (Duration::from_secs(10), Duration::from_secs(2));
        CompactionPolicy { max_age, max_bytes, min_age, burst_bytes }
    }

    fn target(policy: &CompactionPolicy, now_s: u64) -> Option<u64> {
        // Revisions 5 to 9, made at seconds 5 to 9, of 100 bytes each.
        let commits = (5..10).map(|n| (Revision::new(n), Timestamp::from_millis(n * 1000), 100));
        policy.target(Timestamp::from_millis(now_s * 1000), 500, commits).map(Revision::get)
    }

    #[test]
    fn old_commits_are_compacted() {
        let policy = policy(1_000, 1_000);
        assert_eq!(target(&policy, 10), Some(5));
        assert_eq!(target(&policy, 16), Some(7));
        assert_eq!(target(&policy, 100), Some(9), "the latest stays readable");
    }

    #[test]
    fn oversized_history_is_compacted_except_young_commits() {
        assert_eq!(target(&policy(400, 1_000), 12), Some(7), "down to three quarters of the limit");
        assert_eq!(target(&policy(100, 1_000), 10), Some(9), "but what is younger than two seconds stays");
        assert_eq!(target(&policy(100, 1_000), 6), Some(5));
    }

    #[test]
    fn burst_is_compacted_regardless_of_age() {
        assert_eq!(target(&policy(100, 400), 6), Some(7), "down to seven eighths of the limit");
        assert_eq!(target(&policy(0, 0), 6), Some(9));
    }

    #[test]
    fn larger_history_is_due_earlier() {
        let (policy, since) = (policy(100, 400), Timestamp::from_millis(1_000));
        let due = |bytes| policy.due(since, bytes).since(since).as_millis();
        assert_eq!((due(100), due(101), due(401)), (11_000, 2_200, 0));
        assert!(policy.is_due_earlier_after(100, 101) && policy.is_due_earlier_after(400, 401));
        assert!(!policy.is_due_earlier_after(101, 102) && !policy.is_due_earlier_after(1, 2));
    }
}
