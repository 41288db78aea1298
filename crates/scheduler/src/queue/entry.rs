//! One pod in the queue, and how long it has to wait.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::Refusal;
use crate::framework::{PluginSet, QueueKey, QueueSort, QueuedPod};
use crate::metrics::QueueName;
use crate::view::Pod;

/// Pods whose waiting ends within the same second take turns by priority, as upstream's do.
const WINDOW_MS: u64 = 1000;

/// Whose turn it is, by what a [`QueueSort`] says, and then by who was added first.
pub(super) type Turn = (Reverse<i64>, Timestamp, u64, u64);

/// When waiting ends, and whose turn it is then.
pub(super) type BackoffKey = (Timestamp, Turn);

/// How long pods wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    /// After the first attempt; twice as long after each further one,
    pub(crate) initial: Duration,
    /// up to this.
    pub(crate) max: Duration,
    /// After which time a parked pod is tried again, whatever has happened.
    pub(crate) parked_at_most: Duration,
}

/// Where a pod is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Active(Turn),
    BackingOff(BackoffKey),
    Failed(BackoffKey),
    /// Since when.
    Parked(Timestamp),
    /// By the plugins that refused it last.
    Gated,
    InFlight,
}

impl Place {
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

/// A pod, and what has become of it so far.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) pod: Arc<Pod>,
    pub(super) profile: usize,
    pub(super) place: Place,
    /// When it was added, or came back.
    pub(super) since: Timestamp,
    /// Which pod it was that was added; no two are the same.
    pub(super) added: u64,
    /// How often it was refused.
    pub(super) refusals: u32,
    /// How often something went wrong, in a row.
    pub(super) failures: u32,
    pub(super) refused_by: PluginSet,
    /// Who of them waits for something that was begun.
    pub(super) pending_for: PluginSet,
    /// How often it was tried.
    pub(super) attempts: u32,
    /// When it could first be tried.
    pub(super) first_active: Option<Timestamp>,
    /// Whether it is tried only because it has been parked for so long.
    pub(super) was_flushed: bool,
}

impl Entry {
    pub(super) fn new(pod: Arc<Pod>, profile: usize, added: u64, now: Timestamp) -> Self {
        Self {
            pod,
            profile,
            place: Place::InFlight,
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

    pub(super) fn turn(&self, sort: &dyn QueueSort) -> Turn {
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

    /// Whether a second in which waiting ends has passed.
    pub(super) fn is_over(&self, until: Timestamp, now: Timestamp) -> bool {
        until.as_millis() / WINDOW_MS < now.as_millis() / WINDOW_MS
    }
}

/// The most important first, then who has waited longest: the one way of sorting that upstream's default
/// configuration has.
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
