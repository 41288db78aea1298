//! Plans an autoscaler's step from its spec, its target and the metrics. Pure.

use coracle_base::Timestamp;
use serde_json::{Value, json};

use super::limits::{History, Limits};
use super::metric::{Fault, Outcome};
use super::object::{Autoscaler, NewCondition, Status};

/// Input needed for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// None: the size is determined, for this reason.
    Nothing { replicas: i32, reason: &'static str },
    /// None: scaling is disabled.
    Disabled,
    /// The metrics.
    Metrics,
}

/// Checks whether the current size alone determines the new one.
pub(super) fn need(scaler: &Autoscaler, current: i32) -> Need {
    let (min, max) = (scaler.spec.min_replicas(), scaler.spec.max_replicas);
    if current == 0 {
        Need::Disabled
    } else if current > max {
        Need::Nothing { replicas: max, reason: "Current number of replicas above Spec.MaxReplicas" }
    } else if current < min {
        Need::Nothing { replicas: min, reason: "Current number of replicas below Spec.MinReplicas" }
    } else {
        Need::Metrics
    }
}

/// Steps to take.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// Status to write if the other steps succeed.
    pub(super) status: Status,
    /// New size and reason, if it differs from the current size.
    pub(super) rescale: Option<(i32, String)>,
    /// Size before any limit.
    pub(super) proposed: Option<i32>,
    /// Why no size could be computed.
    pub(super) failure: Option<String>,
}

/// Plan if the metrics do not matter: scaling is disabled, or the size is out of bounds.
pub(super) fn by_size(
    scaler: &Autoscaler,
    current: i32,
    wanted: Option<(i32, &'static str)>,
    now: Timestamp,
) -> Plan {
    let mut status = scale_known(scaler, now);
    if wanted.is_none() {
        let message = "scaling is disabled since the replica count of the target is zero";
        status.set(NewCondition::scaling_active(false, "ScalingDisabled", message), now);
    }
    let rescale = wanted.map(|(replicas, reason)| (replicas, reason.to_owned()));
    let desired = rescale.as_ref().map_or(current, |(replicas, _)| *replicas);
    Plan { status: sized(status, current, desired, Value::Null), rescale, proposed: None, failure: None }
}

/// Plan from the metrics.
pub(super) fn by_metrics(
    scaler: &Autoscaler,
    current: i32,
    outcomes: &[Result<Outcome, Fault>],
    history: &History,
    now: Timestamp,
) -> Plan {
    let mut status = scale_known(scaler, now);
    let metrics = outcomes.iter().map(metric_status).collect();
    let best = best(outcomes);
    let faults: Vec<&Fault> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    let failure = faults.first().map(|first| {
        let (bad, all) = (faults.len(), outcomes.len());
        format!("invalid metrics ({bad} invalid out of {all}), first error is: {}", first.summary())
    });
    let proposed = best.map_or(0, |best| best.replicas);
    // If some metrics are unknown, the target is not scaled down: they might require its size.
    let best = best.filter(|_| faults.is_empty() || proposed >= current);
    let Some(best) = best else {
        if let Some(first) = faults.first() {
            let message = format!("the HPA was unable to compute the replica count: {}", first.message);
            status.set(NewCondition::scaling_active(false, first.reason, message), now);
        }
        let desired = status.desired_replicas;
        let status = sized(status, current, desired, metrics);
        return Plan { status, rescale: None, proposed: None, failure };
    };
    let message = format!("the HPA was able to successfully calculate a replica count from {}", best.name);
    status.set(NewCondition::scaling_active(true, "ValidMetricFound", message), now);
    let spec = &scaler.spec;
    let limits =
        Limits { min: spec.min_replicas(), max: spec.max_replicas, behavior: spec.behavior.as_deref() };
    let limited = limits.apply(current, proposed, history, now);
    limited.conditions.into_iter().for_each(|condition| status.set(condition, now));
    let rescale = (limited.replicas != current).then(|| (limited.replicas, reason(best, current)));
    let status = sized(status, current, limited.replicas, metrics);
    Plan { status, rescale, proposed: Some(proposed), failure }
}

/// The metric with the largest proposal.
fn best(outcomes: &[Result<Outcome, Fault>]) -> Option<&Outcome> {
    let known = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok());
    // The first of several with the same proposal.
    known.reduce(|best, one| if one.replicas > best.replicas { one } else { best })
}

/// Status of a metric; an unusable one has an empty entry.
fn metric_status(outcome: &Result<Outcome, Fault>) -> Value {
    outcome.as_ref().map_or_else(|_| json!({"type": ""}), |outcome| outcome.status.clone())
}

fn reason(best: &Outcome, current: i32) -> String {
    match best.replicas.cmp(&current) {
        std::cmp::Ordering::Greater => format!("{} above target", best.name),
        std::cmp::Ordering::Less => "All metrics below target".to_owned(),
        std::cmp::Ordering::Equal => String::new(),
    }
}

/// The status with the condition that the target's scale was read.
fn scale_known(scaler: &Autoscaler, now: Timestamp) -> Status {
    let mut status = scaler.status.clone();
    let message = "the HPA controller was able to get the target's current scale";
    status.set(NewCondition::able_to_scale(true, "SucceededGetScale", message), now);
    status
}

fn sized(status: Status, current: i32, desired: i32, metrics: Value) -> Status {
    Status { current_replicas: current, desired_replicas: desired, current_metrics: metrics, ..status }
}

impl Plan {
    /// Updates the status after scaling the target.
    pub(super) fn rescaled(&mut self, replicas: i32, now: Timestamp) {
        let message = format!("the HPA controller was able to update the target scale to {replicas}");
        self.status.set(NewCondition::able_to_scale(true, "SucceededRescale", message), now);
        self.status.last_scale_time = Some(now);
    }

    /// Updates the status after scaling failed. The desired size stays the former one.
    pub(super) fn not_rescaled(&mut self, why: &str, desired_before: i32, now: Timestamp) {
        let message = format!("the HPA controller was unable to update the target scale: {why}");
        self.status.set(NewCondition::able_to_scale(false, "FailedUpdateScale", message), now);
        self.status.desired_replicas = desired_before;
    }
}

/// Status if the target's scale is unknown.
pub(super) fn unable(scaler: &Autoscaler, new_condition: NewCondition, now: Timestamp) -> Status {
    let mut status = scaler.status.clone();
    status.set(new_condition, now);
    status
}

/// Status if the scale is known but not its pods.
pub(super) fn unselected(
    scaler: &Autoscaler,
    current: i32,
    new_condition: NewCondition,
    now: Timestamp,
) -> Status {
    let mut status = scale_known(scaler, now);
    status.set(new_condition, now);
    let desired = status.desired_replicas;
    sized(status, current, desired, Value::Null)
}
