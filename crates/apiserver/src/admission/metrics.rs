//! Durations of admission, under kube-apiserver's metric names.

use std::time::Duration;

use coracle_base::metrics::{Buckets, Histograms, Metrics, Summaries};
use coracle_registry::admission::Operation;

/// The phases of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Admit,
    Validate,
}

#[derive(Clone)]
pub(super) struct AdmissionMetrics {
    steps: Histograms<3>,
    step_quantiles: Summaries<3>,
    controllers: Histograms<4>,
}

impl AdmissionMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let buckets = || Buckets::new(&[0.005, 0.025, 0.1, 0.5, 1.0, 2.5]);
        Self {
            steps: metrics.histograms(
                "apiserver_admission_step_admission_duration_seconds",
                "Duration of all plugins of a step of admission, by operation and result.",
                buckets(),
                ["operation", "rejected", "type"],
            ),
            step_quantiles: metrics.summaries(
                "apiserver_admission_step_admission_duration_seconds_summary",
                "Quantiles of the duration of a step of admission, of its last 1024 runs.",
                ["operation", "rejected", "type"],
            ),
            controllers: metrics.histograms(
                "apiserver_admission_controller_admission_duration_seconds",
                "Duration of an admission plugin, by operation and result.",
                buckets(),
                ["name", "operation", "rejected", "type"],
            ),
        }
    }

    pub(super) fn note_step(&self, step: Step, operation: Operation, rejected: bool, took: Duration) {
        let labels = [label(operation), flag(rejected), step.label()];
        self.steps.with(labels).observe_duration(took);
        self.step_quantiles.with(labels).observe_duration(took);
    }

    pub(super) fn note_plugin(
        &self,
        name: &str,
        step: Step,
        operation: Operation,
        rejected: bool,
        took: Duration,
    ) {
        self.controllers.with([name, label(operation), flag(rejected), step.label()]).observe_duration(took);
    }
}

impl Step {
    fn label(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Validate => "validate",
        }
    }
}

fn label(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

fn flag(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
