//! One pod in the queue, and its backoff.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::Refusal;
use crate::framework::{PluginSet, QueueKey, QueueSort, QueuedPod};
use crate::metrics::QueueName;
use crate::view::Pod;

/// Pods whose backoff ends within the same second are ordered by priority, as in kube-scheduler.
const WINDOW_MS: u64 = 1000;

/// Sort key: that of the [`QueueSort`], then the order in which pods were added.
pub(super) type SortKey = (Reverse<i64>, Timestamp, u64, u64);

/// End of the backoff, then the sort key.
pub(super) type BackoffKey = (Timestamp, SortKey);

/// Configuration of the waiting times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    /// Backoff after the first attempt; it doubles with each further one,
    pub(crate) initial: Duration,
    /// up to this.
    pub(crate) max: Duration,
    /// Time after which a parked pod is retried without an event.
    pub(crate) parked_at_most: Duration,
}

/// State of a pod in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum PodState {
    Active(SortKey),
    BackingOff(BackoffKey),
    Failed(BackoffKey),
    /// With the time since when.
    Parked(Timestamp),
    /// Gated by the plugins in `refused_by`.
    Gated,
    InFlight,
}

impl PodState {
    pub(super) fn queue(self) -> Option<QueueName> {
        match self {
            Self::Active(_) => Some(QueueName::Active),
            Self::BackingOff(_) | Self::Failed(_) => Some(QueueName::Backoff),
            Self::Parked(_) => Some(QueueName::Unschedulable),
            Self::Gated => Some(QueueName::Gated),
            Self::InFlight => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) pod: Arc<Pod>,
    pub(super) profile: usize,
    pub(super) state: PodState,
    /// Time it was added or returned to the queue.
    pub(super) since: Timestamp,
    /// Sequence number, unique per added pod.
    pub(super) added: u64,
    /// Number of rejections.
    pub(super) refusals: u32,
    /// Number of consecutive errors.
    pub(super) failures: u32,
    pub(super) refused_by: PluginSet,
    /// The subset of plugins that wait for an operation in progress.
    pub(super) pending_for: PluginSet,
    /// Number of attempts.
    pub(super) attempts: u32,
    /// Time it first became active.
    pub(super) first_active: Option<Timestamp>,
    /// True if it is retried only because its maximum parking time was over.
    pub(super) was_flushed: bool,
}

impl Entry {
    pub(super) fn new(pod: Arc<Pod>, profile: usize, added: u64, now: Timestamp) -> Self {
        Self {
            pod,
            profile,
            state: PodState::InFlight,
            since: now,
            added,
            refusals: 0,
            failures: 0,
            refused_by: PluginSet::default(),
            pending_for: PluginSet::default(),
            attempts: 0,
            first_active: None,
            was_flushed: false,
        }
    }

    pub(super) fn sort_key(&self, sort: &dyn QueueSort) -> SortKey {
        let QueueKey { rank, since, group } = sort.key(&QueuedPod { pod: &self.pod, since: self.since });
        (Reverse(rank), since, group, self.added)
    }

    pub(super) fn refusal(&self) -> Refusal {
        Refusal { profile: self.profile, plugins: self.refused_by, pending: self.pending_for }
    }
}

impl Backoff {
    pub(super) fn until_after_refusals(&self, entry: &Entry) -> Timestamp {
        let until = self.until(entry.since, entry.refusals);
        Timestamp::from_millis(until.as_millis() / WINDOW_MS * WINDOW_MS)
    }

    pub(super) fn until_after_failures(&self, entry: &Entry) -> Timestamp {
        self.until(entry.since, entry.failures)
    }

    fn until(&self, since: Timestamp, attempts: u32) -> Timestamp {
        let Some(doublings) = attempts.checked_sub(1) else { return since };
        since + self.initial.saturating_mul(1 << doublings.min(31)).min(self.max)
    }

    /// True if the second in which the backoff ends is over.
    pub(super) fn is_over(&self, until: Timestamp, now: Timestamp) -> bool {
        until.as_millis() / WINDOW_MS < now.as_millis() / WINDOW_MS
    }
}

/// Highest priority first, then longest waiting: the only queue sort plugin of kube-scheduler's default
/// configuration.
#[derive(Debug)]
pub(crate) struct PrioritySort;

impl QueueSort for PrioritySort {
    fn name(&self) -> &'static str {
        "PrioritySort"
    }

    fn key(&self, queued: &QueuedPod<'_>) -> QueueKey {
        QueueKey { rank: queued.pod.priority.into(), since: queued.since, group: 0 }
    }
}
