//! What an autoscaler is to do: from what it says, what its target has, and what was measured.

use coracle_base::Timestamp;
use serde_json::{Value, json};

use super::limits::{History, Limits};
use super::metric::{Fault, Outcome};
use super::object::{Autoscaler, Said, Status};

/// What has to be known before anything can be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing more: there are to be so many replicas, for this reason.
    Nothing { replicas: i32, reason: &'static str },
    /// Nothing, for nothing is to be done.
    Disabled,
    /// The metrics.
    Metrics,
}

/// What a size alone calls for.
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

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// What is to be said, should the rest succeed.
    pub(super) status: Status,
    /// How many replicas there are to be, and why, if that is another number.
    pub(super) rescale: Option<(i32, String)>,
    /// Before any limit.
    pub(super) proposed: Option<i32>,
    /// Why nothing could be decided.
    pub(super) failure: Option<String>,
}

/// The plan of an autoscaler whose target has the right size, or a wrong one, whatever is measured.
pub(super) fn by_size(
    scaler: &Autoscaler,
    current: i32,
    wanted: Option<(i32, &'static str)>,
    now: Timestamp,
) -> Plan {
    let mut status = begun(scaler, now);
    if wanted.is_none() {
        let message = "scaling is disabled since the replica count of the target is zero";
        status.set(Said::scaling_active(false, "ScalingDisabled", message), now);
    }
    let rescale = wanted.map(|(replicas, reason)| (replicas, reason.to_owned()));
    let desired = rescale.as_ref().map_or(current, |(replicas, _)| *replicas);
    Plan { status: sized(status, current, desired, Value::Null), rescale, proposed: None, failure: None }
}

/// The plan of an autoscaler by its metrics.
pub(super) fn by_metrics(
    scaler: &Autoscaler,
    current: i32,
    outcomes: &[Result<Outcome, Fault>],
    history: &History,
    now: Timestamp,
) -> Plan {
    let mut status = begun(scaler, now);
    let metrics = outcomes.iter().map(told).collect();
    let best = best(outcomes);
    let faults: Vec<&Fault> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    let failure = faults.first().map(|first| {
        let (bad, all) = (faults.len(), outcomes.len());
        format!("invalid metrics ({bad} invalid out of {all}), first error is: {}", first.summary())
    });
    let proposed = best.map_or(0, |best| best.replicas);
    // With some metrics unknown nothing is taken away: they might have spoken against it.
    let best = best.filter(|_| faults.is_empty() || proposed >= current);
    let Some(best) = best else {
        if let Some(first) = faults.first() {
            let message = format!("the HPA was unable to compute the replica count: {}", first.message);
            status.set(Said::scaling_active(false, first.reason, message), now);
        }
        let desired = status.desired_replicas;
        let status = sized(status, current, desired, metrics);
        return Plan { status, rescale: None, proposed: None, failure };
    };
    let message = format!("the HPA was able to successfully calculate a replica count from {}", best.name);
    status.set(Said::scaling_active(true, "ValidMetricFound", message), now);
    let spec = &scaler.spec;
    let limits =
        Limits { min: spec.min_replicas(), max: spec.max_replicas, behavior: spec.behavior.as_deref() };
    let limited = limits.apply(current, proposed, history, now);
    limited.said.into_iter().for_each(|said| status.set(said, now));
    let rescale = (limited.replicas != current).then(|| (limited.replicas, reason(best, current)));
    let status = sized(status, current, limited.replicas, metrics);
    Plan { status, rescale, proposed: Some(proposed), failure }
}

/// The metric that calls for most.
fn best(outcomes: &[Result<Outcome, Fault>]) -> Option<&Outcome> {
    let known = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok());
    // The first of several that call for the same.
    known.reduce(|best, one| if one.replicas > best.replicas { one } else { best })
}

/// A metric that is of no use has a place in the list all the same.
fn told(outcome: &Result<Outcome, Fault>) -> Value {
    outcome.as_ref().map_or_else(|_| json!({"type": ""}), |outcome| outcome.status.clone())
}

fn reason(best: &Outcome, current: i32) -> String {
    match best.replicas.cmp(&current) {
        std::cmp::Ordering::Greater => format!("{} above target", best.name),
        std::cmp::Ordering::Less => "All metrics below target".to_owned(),
        std::cmp::Ordering::Equal => String::new(),
    }
}

/// That the target was found is known by now.
fn begun(scaler: &Autoscaler, now: Timestamp) -> Status {
    let mut status = scaler.status.clone();
    let message = "the HPA controller was able to get the target's current scale";
    status.set(Said::able_to_scale(true, "SucceededGetScale", message), now);
    status
}

fn sized(status: Status, current: i32, desired: i32, metrics: Value) -> Status {
    Status { current_replicas: current, desired_replicas: desired, current_metrics: metrics, ..status }
}

impl Plan {
    /// After the target was given its new size.
    pub(super) fn rescaled(&mut self, replicas: i32, now: Timestamp) {
        let message = format!("the HPA controller was able to update the target scale to {replicas}");
        self.status.set(Said::able_to_scale(true, "SucceededRescale", message), now);
        self.status.last_scale_time = Some(now);
    }

    /// After it could not be given it. What was desired before is still what was desired last.
    pub(super) fn not_rescaled(&mut self, why: &str, desired_before: i32, now: Timestamp) {
        let message = format!("the HPA controller was unable to update the target scale: {why}");
        self.status.set(Said::able_to_scale(false, "FailedUpdateScale", message), now);
        self.status.desired_replicas = desired_before;
    }
}

/// What is said of an autoscaler whose target, or whose target's pods, cannot be found.
pub(super) fn unable(scaler: &Autoscaler, said: Said, now: Timestamp) -> Status {
    let mut status = scaler.status.clone();
    status.set(said, now);
    status
}

/// The same, where the target was found but not its pods.
pub(super) fn unselected(scaler: &Autoscaler, current: i32, said: Said, now: Timestamp) -> Status {
    let mut status = begun(scaler, now);
    status.set(said, now);
    let desired = status.desired_replicas;
    sized(status, current, desired, Value::Null)
}
