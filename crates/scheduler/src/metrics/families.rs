//! Names, help texts and buckets of the metrics, copied verbatim from kube-scheduler. Labels are sorted by
//! name, as on kube-scheduler's metrics page.

use std::sync::Arc;

use coracle_base::metrics::{Buckets, Counter, Counters, Gauges, Histogram, Histograms, Metrics};

#[derive(Debug)]
pub(super) struct Families {
    pub(super) attempts: Counters<2>,
    pub(super) event_handling: Histograms<1>,
    pub(super) attempt_duration: Histograms<2>,
    pub(super) algorithm_duration: Arc<Histogram>,
    pub(super) preemption_victims: Arc<Histogram>,
    pub(super) preemption_attempts: Arc<Counter>,
    pub(super) pending_pods: Gauges<1>,
    pub(super) inflight_events: Gauges<1>,
    pub(super) goroutines: Gauges<1>,
    pub(super) sli_duration: Histograms<1>,
    pub(super) scheduling_attempts: Arc<Histogram>,
    pub(super) scheduled_after_flush: Arc<Counter>,
    pub(super) point_duration: Histograms<3>,
    pub(super) plugin_duration: Histograms<3>,
    pub(super) hint_duration: Histograms<3>,
    pub(super) incoming_pods: Counters<2>,
    pub(super) permit_wait: Histograms<1>,
    pub(super) cache_size: Gauges<1>,
    pub(super) unschedulable_pods: Gauges<2>,
    pub(super) evaluations: Counters<3>,
    pub(super) preemption_duration: Histograms<1>,
    pub(super) preemption_executions: Counters<1>,
}

impl Families {
    pub(super) fn declare(metrics: &Metrics) -> Self {
        let attempt_buckets = || Buckets::exponential(0.001, 2.0, 15);
        let point_buckets = || Buckets::exponential(0.0001, 2.0, 12);
        let plugin_buckets = || Buckets::exponential(0.00001, 1.5, 20);
        Self {
            attempts: metrics.counters(
                "scheduler_schedule_attempts_total",
                "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.",
                ["profile", "result"],
            ),
            event_handling: metrics.histograms(
                "scheduler_event_handling_duration_seconds",
                "[ALPHA] Event handling latency in seconds.",
                point_buckets(),
                ["event"],
            ),
            attempt_duration: metrics.histograms(
                "scheduler_scheduling_attempt_duration_seconds",
                "[STABLE] Scheduling attempt latency in seconds (scheduling algorithm + binding)",
                attempt_buckets(),
                ["profile", "result"],
            ),
            algorithm_duration: metrics.histogram(
                "scheduler_scheduling_algorithm_duration_seconds",
                "[ALPHA] Scheduling algorithm latency in seconds",
                attempt_buckets(),
            ),
            preemption_victims: metrics.histogram(
                "scheduler_preemption_victims",
                "[STABLE] Number of selected preemption victims",
                Buckets::exponential(1.0, 2.0, 7),
            ),
            preemption_attempts: metrics.counter(
                "scheduler_preemption_attempts_total",
                "[STABLE] Total preemption attempts in the cluster till now",
            ),
            pending_pods: metrics.gauges(
                "scheduler_pending_pods",
                "[STABLE] Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because they are gated.",
                ["queue"],
            ),
            inflight_events: metrics.gauges(
                "scheduler_inflight_events",
                "[ALPHA] Number of events currently tracked in the scheduling queue.",
                ["event"],
            ),
            goroutines: metrics.gauges(
                "scheduler_goroutines",
                "[BETA] Number of running goroutines split by the work they do such as binding.",
                ["operation"],
            ),
            sli_duration: metrics.histograms(
                "scheduler_pod_scheduling_sli_duration_seconds",
                "[BETA] E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve multiple scheduling attempts.",
                Buckets::exponential(0.01, 2.0, 20),
                ["attempts"],
            ),
            scheduling_attempts: metrics.histogram(
                "scheduler_pod_scheduling_attempts",
                "[STABLE] Number of attempts to successfully schedule a pod.",
                Buckets::exponential(1.0, 2.0, 5),
            ),
            scheduled_after_flush: metrics.counter(
                "scheduler_pod_scheduled_after_flush_total",
                "[ALPHA] Number of pods that were successfully scheduled after being flushed from unschedulablePods due to timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.",
            ),
            point_duration: metrics.histograms(
                "scheduler_framework_extension_point_duration_seconds",
                "[STABLE] Latency for running all plugins of a specific extension point.",
                point_buckets(),
                ["extension_point", "profile", "status"],
            ),
            plugin_duration: metrics.histograms(
                "scheduler_plugin_execution_duration_seconds",
                "[ALPHA] Duration for running a plugin at a specific extension point.",
                plugin_buckets(),
                ["extension_point", "plugin", "status"],
            ),
            hint_duration: metrics.histograms(
                "scheduler_queueing_hint_execution_duration_seconds",
                "[ALPHA] Duration for running a queueing hint function of a plugin.",
                plugin_buckets(),
                ["event", "hint", "plugin"],
            ),
            incoming_pods: metrics.counters(
                "scheduler_queue_incoming_pods_total",
                "[STABLE] Number of pods added to scheduling queues by event and queue type.",
                ["event", "queue"],
            ),
            permit_wait: metrics.histograms(
                "scheduler_permit_wait_duration_seconds",
                "[BETA] Duration of waiting on permit.",
                attempt_buckets(),
                ["result"],
            ),
            cache_size: metrics.gauges(
                "scheduler_cache_size",
                "[ALPHA] Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
                ["type"],
            ),
            unschedulable_pods: metrics.gauges(
                "scheduler_unschedulable_pods",
                "[BETA] The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all plugins that caused it to not schedule and so this metric have meaning only when broken down by plugin.",
                ["plugin", "profile"],
            ),
            evaluations: metrics.counters(
                "scheduler_plugin_evaluation_total",
                "[BETA] Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, Filter, PreScore, and Score).",
                ["extension_point", "plugin", "profile"],
            ),
            preemption_duration: metrics.histograms(
                "scheduler_preemption_goroutines_duration_seconds",
                "[ALPHA] Duration in seconds for running goroutines for the preemption.",
                Buckets::exponential(0.01, 2.0, 20),
                ["result"],
            ),
            preemption_executions: metrics.counters(
                "scheduler_preemption_goroutines_execution_total",
                "[ALPHA] Number of preemption goroutines executed.",
                ["result"],
            ),
        }
    }
}
