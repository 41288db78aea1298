//! Metrics of autoscalers, under Kubernetes' names (`pkg/controller/podautoscaler/monitor`).

use std::cmp::Ordering;
use std::time::Duration;

use coracle_base::Metrics;
use coracle_base::metrics::{Buckets, Counters, Histograms, Type};
use coracle_runtime::{ClusterId, Informer};

use super::metric::{Fault, INVALID_TYPE, Outcome};
use super::object::Autoscaler;

/// Scaling direction; value of the `action` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scaled {
    Up,
    Down,
    Not,
}

/// Cause of a failure; value of the `error` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorCause {
    None,
    /// The autoscaler's spec is invalid.
    Spec,
    Internal,
}

/// Result of a reconcile or of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) scaled: Scaled,
    pub(super) cause: ErrorCause,
}

impl Scaled {
    pub(super) fn between(current: i32, wanted: i32) -> Self {
        match wanted.cmp(&current) {
            Ordering::Greater => Self::Up,
            Ordering::Less => Self::Down,
            Ordering::Equal => Self::Not,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Up => "scale_up",
            Self::Down => "scale_down",
            Self::Not => "none",
        }
    }
}

impl ErrorCause {
    /// Cause of a missing target: its API version may be invalid.
    pub(super) fn for_target(scaler: &Autoscaler) -> Self {
        let is_none = scaler.spec.scale_target_ref.api_version.matches('/').count() > 1;
        if is_none { Self::Spec } else { Self::Internal }
    }

    fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Spec => "spec",
            Self::Internal => "internal",
        }
    }
}

impl Report {
    /// No scaling, with this cause.
    pub(super) fn idle(cause: ErrorCause) -> Self {
        Self { scaled: Scaled::Not, cause }
    }

    /// Result of one metric.
    fn of_metric(scaler: &Autoscaler, outcome: &Result<Outcome, Fault>) -> Self {
        match outcome {
            Ok(outcome) => Self {
                scaled: Scaled::between(scaler.status.current_replicas, outcome.replicas),
                cause: ErrorCause::None,
            },
            Err(fault) if fault.reason == INVALID_TYPE => Self::idle(ErrorCause::Spec),
            Err(_) => Self::idle(ErrorCause::Internal),
        }
    }
}

#[derive(Debug)]
pub(super) struct ScalerMetrics {
    reconciliations: Counters<2>,
    reconciliation_duration: Histograms<2>,
    computations: Counters<3>,
    computation_duration: Histograms<3>,
}

impl ScalerMetrics {
    pub(super) fn new(metrics: &Metrics, scalers: &Informer<Autoscaler>) -> Self {
        declare_gauges(metrics, scalers);
        let buckets = || Buckets::exponential(0.001, 2.0, 15);
        Self {
            reconciliations: metrics.counters(
                "horizontal_pod_autoscaler_controller_reconciliations_total",
                "Reconciles of autoscalers.",
                ["action", "error"],
            ),
            reconciliation_duration: metrics.histograms(
                "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds",
                "Duration of reconciles of autoscalers.",
                buckets(),
                ["action", "error"],
            ),
            computations: metrics.counters(
                "horizontal_pod_autoscaler_controller_metric_computation_total",
                "Metric computations of autoscalers.",
                ["action", "error", "metric_type"],
            ),
            computation_duration: metrics.histograms(
                "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds",
                "Duration of metric computations of autoscalers.",
                buckets(),
                ["action", "error", "metric_type"],
            ),
        }
    }

    /// Records a reconcile.
    pub(super) fn reconciled(&self, report: Report, took: Duration) {
        let labels = [report.scaled.label(), report.cause.label()];
        self.reconciliations.with(labels).inc();
        self.reconciliation_duration.with(labels).observe_duration(took);
    }

    /// Records the computation of a metric.
    pub(super) fn computed(
        &self,
        scaler: &Autoscaler,
        metric_type: &str,
        outcome: &Result<Outcome, Fault>,
        took: Duration,
    ) {
        let report = Report::of_metric(scaler, outcome);
        let labels = [report.scaled.label(), report.cause.label(), metric_type];
        self.computations.with(labels).inc();
        self.computation_duration.with(labels).observe_duration(took);
    }
}

fn declare_gauges(metrics: &Metrics, scalers: &Informer<Autoscaler>) {
    let store = scalers.store().clone();
    metrics.collected(
        "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers",
        Type::Gauge,
        "Number of autoscalers.",
        move |samples| samples.add_value(&[], store.len() as f64),
    );
    let store = scalers.store().clone();
    metrics.collected(
        "horizontal_pod_autoscaler_controller_desired_replicas",
        Type::Gauge,
        "Desired replicas of autoscalers in the default cluster.",
        move |samples| {
            // Names repeat across clusters, and other clusters' names must not leak into this server's metrics.
            for scaler in store.in_cluster(&ClusterId::default()) {
                let labels =
                    [("namespace", scaler.metadata.namespace()), ("hpa_name", scaler.metadata.name())];
                samples.add_value(&labels, scaler.status.desired_replicas.into());
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn metric_results_are_labelled_by_action_and_error() {
        let scaler: Autoscaler = serde_json::from_value(json!({
            "metadata": {"name": "h", "namespace": "n"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 5},
            "status": {"currentReplicas": 2},
        }))
        .unwrap();
        let outcome = |replicas| Ok(Outcome { replicas, name: String::new(), status: Value::Null });
        let fault = |reason| Err(Fault { reason, message: String::new(), context: String::new() });
        let report = |outcome: Result<Outcome, Fault>| {
            let Report { scaled, cause } = Report::of_metric(&scaler, &outcome);
            (scaled.label(), cause.label())
        };
        assert_eq!(report(outcome(3)), ("scale_up", "none"));
        assert_eq!(report(outcome(2)), ("none", "none"));
        assert_eq!(report(outcome(1)), ("scale_down", "none"));
        assert_eq!(report(fault("FailedGetResourceMetric")), ("none", "internal"));
        assert_eq!(report(fault(INVALID_TYPE)), ("none", "spec"));
    }
}
