//! Metrics of policies (`pkg/admission/plugin/policy/*/metrics` of k8s.io/apiserver).

use std::time::Duration;

use coracle_base::metrics::{Buckets, Counters, Histograms, Metrics};

use super::compiled::{Binding, Policy};

/// The buckets of kube-apiserver, in seconds.
const LIMITS: [f64; 5] = [0.000_000_5, 0.001, 0.01, 0.1, 1.0];

/// The result of evaluating an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ErrorType {
    None,
    /// The expression does not compile.
    Compile,
    /// The expression fails, or its result is not accepted.
    #[default]
    Invalid,
    OutOfBudget,
}

impl ErrorType {
    fn as_str(self) -> &'static str {
        match self {
            Self::None => "no_error",
            Self::Compile => "compile_error",
            Self::Invalid => "invalid_error",
            Self::OutOfBudget => "out_of_budget",
        }
    }
}

/// An evaluated expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Evaluated {
    pub(super) error: ErrorType,
    pub(super) took: Duration,
}

pub(super) struct ValidatingMetrics {
    checks: Counters<4>,
    durations: Histograms<4>,
}

impl ValidatingMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let labels = ["enforcement_action", "error_type", "policy", "policy_binding"];
        Self {
            checks: metrics.counters(
                "apiserver_validating_admission_policy_check_total",
                "Failed validations of ValidatingAdmissionPolicies, by action and error.",
                labels,
            ),
            durations: metrics.histograms(
                "apiserver_validating_admission_policy_check_duration_seconds",
                "Duration of failed validations of ValidatingAdmissionPolicies, by action and error.",
                Buckets::new(&LIMITS),
                labels,
            ),
        }
    }

    pub(super) fn note(&self, action: &str, policy: &Policy, binding: &Binding, evaluated: Evaluated) {
        let labels = [action, evaluated.error.as_str(), &policy.name, &binding.name];
        self.checks.with(labels).inc();
        self.durations.with(labels).observe_duration(evaluated.took);
    }
}

pub(super) struct MutatingMetrics {
    checks: Counters<3>,
    durations: Histograms<3>,
}

impl MutatingMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let labels = ["error_type", "policy", "policy_binding"];
        Self {
            checks: metrics.counters(
                "apiserver_mutating_admission_policy_check_total",
                "Mutations of MutatingAdmissionPolicies, by error.",
                labels,
            ),
            durations: metrics.histograms(
                "apiserver_mutating_admission_policy_check_duration_seconds",
                "Duration of mutations of MutatingAdmissionPolicies, by error.",
                Buckets::new(&LIMITS),
                labels,
            ),
        }
    }

    pub(super) fn note(&self, policy: &Policy, binding: &Binding, evaluated: Evaluated) {
        let labels = [evaluated.error.as_str(), &policy.name, &binding.name];
        self.checks.with(labels).inc();
        self.durations.with(labels).observe_duration(evaluated.took);
    }
}
