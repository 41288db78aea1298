//! What the scheduler counts, under upstream's names (`pkg/scheduler/metrics/metrics.go`).
//!
//! What is counted for every pod is looked up once and kept, so that counting is some additions.

mod families;
mod profile;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coracle_base::metrics::{Counter, Gauge, Metrics};

use crate::cycle::{Point, Status, Trace};
use crate::framework::{PluginSet, Profile};
use families::Families;
use profile::ProfileMetrics;

/// Of a hundred attempts, so many tell how long each plugin took: upstream's `pluginMetricsSamplePercent`.
pub(crate) const SAMPLED_PERCENT: u64 = 10;

/// From so many attempts on they are not told apart.
const MANY_ATTEMPTS: u32 = 15;

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptResult {
    Scheduled,
    Unschedulable,
    Error,
}

impl AttemptResult {
    const ALL: [Self; 3] = [Self::Scheduled, Self::Unschedulable, Self::Error];

    fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        }
    }
}

/// Where pods wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueName {
    Active,
    Backoff,
    Unschedulable,
    Gated,
}

impl QueueName {
    fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Backoff => "backoff",
            Self::Unschedulable => "unschedulable",
            Self::Gated => "gated",
        }
    }
}

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct SchedulerMetrics {
    families: Families,
    profiles: Vec<ProfileMetrics>,
    pending: [Arc<Gauge>; 4],
    /// Pods that are added, which most are that come to a queue.
    added: OnceLock<Arc<Counter>>,
    binding: OnceLock<Arc<Gauge>>,
    in_flight: OnceLock<Arc<Gauge>>,
    cache: [Arc<Gauge>; 3],
}

impl SchedulerMetrics {
    pub(crate) fn new(metrics: &Metrics, profiles: &[Profile]) -> Self {
        let families = Families::declare(metrics);
        let queues = [QueueName::Active, QueueName::Backoff, QueueName::Unschedulable, QueueName::Gated];
        let pending = queues.map(|queue| families.pending_pods.with([queue.as_str()]));
        let cache = ["nodes", "pods", "assumed_pods"].map(|kind| families.cache_size.with([kind]));
        let profiles = profiles.iter().map(ProfileMetrics::new).collect();
        Self {
            families,
            profiles,
            pending,
            added: OnceLock::new(),
            binding: OnceLock::new(),
            in_flight: OnceLock::new(),
            cache,
        }
    }

    /// An attempt is over that took so long, with all that came after it.
    pub(crate) fn attempted(&self, profile: usize, result: AttemptResult, took: Duration) {
        self.profiles[profile].attempted(&self.families, result, took);
    }

    /// A node has been found or not.
    pub(crate) fn algorithm(&self, took: Duration) {
        self.families.algorithm_duration.observe_duration(took);
    }

    /// What an attempt cost.
    pub(crate) fn traced(&self, profile: usize, trace: &Trace) {
        self.profiles[profile].traced(&self.families, trace);
    }

    /// A point was passed outside of an attempt.
    pub(crate) fn passed(&self, profile: usize, point: Point, status: Status, took: Duration) {
        self.profiles[profile].passed(&self.families, point, status, took);
    }

    /// A plugin was asked outside of an attempt.
    pub(crate) fn asked(&self, plugin: &str, point: Point, status: Status, took: Duration) {
        let labels = [point.as_str(), plugin, status.as_str()];
        self.families.plugin_duration.with(labels).observe_duration(took);
    }

    /// A pod was bound after so many attempts, so long after it could first be tried.
    pub(crate) fn scheduled(&self, attempts: u32, took: Duration, was_flushed: bool) {
        self.families.scheduling_attempts.observe(attempts.into());
        let label = if attempts >= MANY_ATTEMPTS { "15+".to_owned() } else { attempts.to_string() };
        self.families.sli_duration.with([&label]).observe_duration(took);
        if was_flushed {
            self.families.scheduled_after_flush.inc();
        }
    }

    /// A plugin was asked whether an event helps a pod.
    pub(crate) fn hinted(&self, plugin: &str, event: &str, helps: bool, took: Duration) {
        let hint = if helps { "Queue" } else { "QueueSkip" };
        self.families.hint_duration.with([event, hint, plugin]).observe_duration(took);
    }

    /// An event was taken in.
    pub(crate) fn handled(&self, event: &str, took: Duration) {
        self.families.event_handling.with([event]).observe_duration(took);
    }

    /// A pod has come to a queue because of an event.
    pub(crate) fn incoming(&self, queue: QueueName, event: &'static str) {
        // One that is held back is in the pool of those that are not schedulable, as upstream has it.
        let name = if queue == QueueName::Gated { QueueName::Unschedulable } else { queue };
        if name == QueueName::Active && event == crate::queue::ADDED {
            self.added.get_or_init(|| self.families.incoming_pods.with([event, name.as_str()])).inc();
        } else {
            self.families.incoming_pods.with([event, name.as_str()]).inc();
        }
    }

    /// So many more pods wait somewhere, or less.
    pub(crate) fn pending(&self, queue: QueueName, more: f64) {
        self.pending[queue as usize].add(more);
    }

    /// A pod was refused by these plugins, or is not any more.
    pub(crate) fn unschedulable(&self, profile: usize, plugins: PluginSet, more: f64) {
        self.profiles[profile].unschedulable(&self.families, plugins, more);
    }

    /// Somebody tried to make room.
    pub(crate) fn preempted(&self) {
        self.families.preemption_attempts.inc();
    }

    /// So many pods have to go for one.
    pub(crate) fn victims(&self, count: usize) {
        self.families.preemption_victims.observe(count as f64);
    }

    /// Victims have been sent away, or not.
    pub(crate) fn sent_away(&self, succeeded: bool, took: Duration) {
        let result = [if succeeded { "success" } else { "error" }];
        self.families.preemption_duration.with(result).observe_duration(took);
        self.families.preemption_executions.with(result).inc();
    }

    /// So many more pods are being brought to their nodes, or less.
    pub(crate) fn binding(&self, more: f64) {
        self.binding.get_or_init(|| self.families.goroutines.with(["binding"])).add(more);
    }

    /// So many more pods are being tried, or less.
    pub(crate) fn in_flight(&self, more: f64) {
        self.in_flight.get_or_init(|| self.families.inflight_events.with(["PodPopped"])).add(more);
    }

    /// A pod waited to be allowed.
    pub(crate) fn waited(&self, status: Status, took: Duration) {
        self.families.permit_wait.with([status.as_str()]).observe_duration(took);
    }

    /// So much more is known, or less.
    pub(crate) fn cached(&self, [nodes, pods, assumed]: [f64; 3]) {
        for (gauge, more) in self.cache.iter().zip([nodes, pods, assumed]) {
            if more != 0.0 {
                gauge.add(more);
            }
        }
    }
}
