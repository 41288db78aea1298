//! Metrics of PodSecurity (`metrics/metrics.go` of k8s.io/pod-security-admission).

use coracle_base::metrics::{Counters, Metrics};
use coracle_registry::admission::{Attributes, Operation};

use super::policy::Standard;
use super::{NAMESPACES, PODS};

pub(super) struct PodSecurityMetrics {
    evaluations: Counters<7>,
    errors: Counters<4>,
}

/// The mode of an evaluated standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Enforce,
    Audit,
    Warn,
}

impl PodSecurityMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            evaluations: metrics.counters(
                "pod_security_evaluations_total",
                "Evaluations of a standard, by decision.",
                [
                    "decision",
                    "mode",
                    "policy_level",
                    "policy_version",
                    "request_operation",
                    "resource",
                    "subresource",
                ],
            ),
            errors: metrics.counters(
                "pod_security_errors_total",
                "Errors that prevent the evaluation of the standard that is asked for.",
                ["fatal", "request_operation", "resource", "subresource"],
            ),
        }
    }

    pub(super) fn note_evaluation(
        &self,
        attributes: &Attributes<'_>,
        mode: Mode,
        standard: Standard,
        is_denied: bool,
    ) {
        let decision = if is_denied { "deny" } else { "allow" };
        let mode = match mode {
            Mode::Enforce => "enforce",
            Mode::Audit => "audit",
            Mode::Warn => "warn",
        };
        let version = standard.version_label();
        let [operation, resource, subresource] = labels(attributes);
        let labels = [decision, mode, standard.level_label(), &version, operation, resource, subresource];
        self.evaluations.with(labels).inc();
    }

    /// Counts an error. An error that is not fatal is an invalid label, which counts as the strictest level.
    pub(super) fn note_error(&self, attributes: &Attributes<'_>, is_fatal: bool) {
        let [operation, resource, subresource] = labels(attributes);
        let is_fatal = if is_fatal { "true" } else { "false" };
        self.errors.with([is_fatal, operation, resource, subresource]).inc();
    }
}

fn labels<'a>(attributes: &Attributes<'a>) -> [&'a str; 3] {
    let operation = match attributes.operation {
        Operation::Create => "create",
        Operation::Update => "update",
        Operation::Delete => "delete",
        Operation::Connect => "connect",
    };
    let resource = match &*attributes.write.kind.declaration().plural {
        PODS => "pod",
        NAMESPACES => "namespace",
        _ => "controller",
    };
    [operation, resource, attributes.write.subresource]
}
