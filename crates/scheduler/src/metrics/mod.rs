//! Metrics of the scheduler, under kube-scheduler's names (`pkg/scheduler/metrics/metrics.go`).
//!
//! Series that change with every pod are looked up once and cached, so that an update costs a few
//! additions.

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

/// Percentage of cycles in which single plugins are measured: kube-scheduler's
/// `pluginMetricsSamplePercent`.
pub(crate) const SAMPLED_PERCENT: u64 = 10;

/// Attempt counts from here on share one label value.
const MANY_ATTEMPTS: u32 = 15;

/// Result of a scheduling attempt.
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

/// A part of the scheduling queue.
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

#[derive(Debug)]
pub(crate) struct SchedulerMetrics {
    families: Families,
    profiles: Vec<ProfileMetrics>,
    pending: [Arc<Gauge>; 4],
    /// Incoming pods of the event that adds a pod, the most frequent one.
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

    /// Counts an attempt, with its duration including binding.
    pub(crate) fn attempted(&self, profile: usize, result: AttemptResult, took: Duration) {
        self.profiles[profile].attempted(&self.families, result, took);
    }

    /// Records the duration of the scheduling algorithm.
    pub(crate) fn algorithm(&self, took: Duration) {
        self.families.algorithm_duration.observe_duration(took);
    }

    /// Adds the trace of a cycle.
    pub(crate) fn traced(&self, profile: usize, trace: &Trace) {
        self.profiles[profile].traced(&self.families, trace);
    }

    /// Records an extension point outside of a scheduling cycle.
    pub(crate) fn passed(&self, profile: usize, point: Point, status: Status, took: Duration) {
        self.profiles[profile].passed(&self.families, point, status, took);
    }

    /// Records a plugin call outside of a scheduling cycle.
    pub(crate) fn plugin_called(&self, plugin: &str, point: Point, status: Status, took: Duration) {
        let labels = [point.as_str(), plugin, status.as_str()];
        self.families.plugin_duration.with(labels).observe_duration(took);
    }

    /// Counts a bound pod, with its number of attempts and the time since it could first be tried.
    pub(crate) fn scheduled(&self, attempts: u32, took: Duration, was_flushed: bool) {
        self.families.scheduling_attempts.observe(attempts.into());
        let label = if attempts >= MANY_ATTEMPTS { "15+".to_owned() } else { attempts.to_string() };
        self.families.sli_duration.with([&label]).observe_duration(took);
        if was_flushed {
            self.families.scheduled_after_flush.inc();
        }
    }

    /// Records a queueing hint.
    pub(crate) fn hinted(&self, plugin: &str, event: &str, helps: bool, took: Duration) {
        let hint = if helps { "Queue" } else { "QueueSkip" };
        self.families.hint_duration.with([event, hint, plugin]).observe_duration(took);
    }

    /// Records the handling of an event.
    pub(crate) fn handled(&self, event: &str, took: Duration) {
        self.families.event_handling.with([event]).observe_duration(took);
    }

    /// Counts a pod that enters a queue because of an event.
    pub(crate) fn incoming(&self, queue: QueueName, event: &'static str) {
        // kube-scheduler counts gated pods in the pool of unschedulable ones.
        let name = if queue == QueueName::Gated { QueueName::Unschedulable } else { queue };
        if name == QueueName::Active && event == crate::queue::ADDED {
            self.added.get_or_init(|| self.families.incoming_pods.with([event, name.as_str()])).inc();
        } else {
            self.families.incoming_pods.with([event, name.as_str()]).inc();
        }
    }

    /// Changes the number of pods in a queue.
    pub(crate) fn pending(&self, queue: QueueName, more: f64) {
        self.pending[queue as usize].add(more);
    }

    /// Changes the number of pods these plugins reject.
    pub(crate) fn unschedulable(&self, profile: usize, plugins: PluginSet, more: f64) {
        self.profiles[profile].unschedulable(&self.families, plugins, more);
    }

    /// Counts a preemption attempt.
    pub(crate) fn preempted(&self) {
        self.families.preemption_attempts.inc();
    }

    /// Records the number of victims of a preemption.
    pub(crate) fn victims(&self, count: usize) {
        self.families.preemption_victims.observe(count as f64);
    }

    /// Records the eviction of victims.
    pub(crate) fn evicted(&self, succeeded: bool, took: Duration) {
        let result = [if succeeded { "success" } else { "error" }];
        self.families.preemption_duration.with(result).observe_duration(took);
        self.families.preemption_executions.with(result).inc();
    }

    /// Changes the number of binding cycles in progress.
    pub(crate) fn binding(&self, more: f64) {
        self.binding.get_or_init(|| self.families.goroutines.with(["binding"])).add(more);
    }

    /// Changes the number of pods in a scheduling attempt.
    pub(crate) fn in_flight(&self, more: f64) {
        self.in_flight.get_or_init(|| self.families.inflight_events.with(["PodPopped"])).add(more);
    }

    /// Records how long a pod waited for Permit plugins.
    pub(crate) fn waited(&self, status: Status, took: Duration) {
        self.families.permit_wait.with([status.as_str()]).observe_duration(took);
    }

    /// Changes the size of the cache.
    pub(crate) fn cached(&self, [nodes, pods, assumed]: [f64; 3]) {
        for (gauge, more) in self.cache.iter().zip([nodes, pods, assumed]) {
            if more != 0.0 {
                gauge.add(more);
            }
        }
    }
}
