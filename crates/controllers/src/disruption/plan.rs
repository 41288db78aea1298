//! Plans the status of a budget. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::object::{Budget, BudgetStatus, Since};
use crate::view::{Condition, IntOrString, Pod, Rounding};

/// How long an evicted pod may take until it terminates. After that the eviction is considered failed, and the pod
/// counts again; Kubernetes' `DeletionTimeout`.
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

/// The only condition type of budgets.
const ALLOWED: &str = "DisruptionAllowed";

/// Expected number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) pods: i32,
    /// Number of them that must be healthy.
    pub(super) healthy: i32,
}

/// True if the owners' desired replicas are needed.
pub(super) fn needs_scale(budget: &Budget) -> bool {
    let spec = &budget.spec;
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
}

/// The expected number of pods. `scale` is the sum of the owners' desired replicas, if it [is needed](needs_scale).
pub(super) fn expected(budget: &Budget, matching: i32, scale: i32) -> Result<Expected, String> {
    let spec = &budget.spec;
    let scaled = |amount: &IntOrString| {
        let number = amount.scaled(scale, Rounding::Up);
        number.ok_or_else(|| {
            "invalid value for IntOrString: invalid type: string is not a percentage".to_owned()
        })
    };
    Ok(match (&spec.max_unavailable, &spec.min_available) {
        (Some(unavailable), _) => Expected { pods: scale, healthy: (scale - scaled(unavailable)?).max(0) },
        (None, Some(IntOrString::Int(available))) => Expected { pods: matching, healthy: *available },
        (None, Some(available)) => Expected { pods: scale, healthy: scaled(available)? },
        (None, None) => Expected { pods: 0, healthy: 0 },
    })
}

/// Steps to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) status: BudgetStatus,
    /// Names of pods that were evicted but did not terminate in time.
    pub(super) not_deleted: Vec<Box<str>>,
    /// When to reconcile again if nothing changes.
    pub(super) after: Option<Duration>,
}

/// Computes the status from the pods and the expected number.
pub(super) fn plan(budget: &Budget, pods: &[Arc<Pod>], expected: Expected, now: Timestamp) -> Plan {
    let Disrupted { terminating, not_deleted, after } = disrupted(budget, pods, now);
    let is_healthy = |pod: &Pod| {
        !pod.metadata.is_terminating() && !terminating.contains_key(pod.metadata.name()) && pod.is_ready()
    };
    let healthy = pods.iter().filter(|pod| is_healthy(pod)).count();
    let healthy = i32::try_from(healthy).unwrap_or(i32::MAX);
    // With no expected pods, the first pods that appear must not be disrupted.
    let allowed = if expected.pods <= 0 { 0 } else { (healthy - expected.healthy).max(0) };
    let mut status = BudgetStatus {
        observed_generation: budget.metadata.generation,
        disrupted_pods: terminating,
        disruptions_allowed: allowed,
        current_healthy: healthy,
        desired_healthy: expected.healthy,
        expected_pods: expected.pods,
        conditions: budget.status.conditions.clone(),
    };
    let (state, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let known = condition(&status);
    let is_current = |known: &Condition| {
        &*known.status == state
            && &*known.reason == reason
            && budget.status.observed_generation == status.observed_generation
    };
    if !known.is_some_and(is_current) {
        set_condition(&mut status, state, reason, "", now);
    }
    Plan { status, not_deleted, after }
}

/// The status if nothing can be computed: no disruptions are allowed.
pub(super) fn fail_safe(budget: &Budget, error: &str, now: Timestamp) -> BudgetStatus {
    let mut status = BudgetStatus { disruptions_allowed: 0, ..budget.status.clone() };
    set_condition(&mut status, "False", "SyncFailed", error, now);
    status
}

fn condition(status: &BudgetStatus) -> Option<&Condition> {
    status.conditions.iter().find(|known| &*known.r#type == ALLOWED)
}

fn set_condition(status: &mut BudgetStatus, state: &str, reason: &str, message: &str, now: Timestamp) {
    let now = Timestamp::from_millis(now.as_millis() / 1000 * 1000);
    let since = condition(status).filter(|known| &*known.status == state);
    let since = since.and_then(|known| known.last_transition_time).unwrap_or(now);
    let generation = status.observed_generation;
    let new = Condition {
        r#type: ALLOWED.into(),
        status: state.into(),
        observed_generation: (generation != 0).then_some(generation),
        last_transition_time: Some(since),
        reason: reason.into(),
        message: message.into(),
        ..Condition::default()
    };
    match status.conditions.iter_mut().find(|known| &*known.r#type == ALLOWED) {
        Some(known) => *known = new,
        None => status.conditions.push(new),
    }
}

struct Disrupted {
    terminating: BTreeMap<Box<str>, Since>,
    not_deleted: Vec<Box<str>>,
    after: Option<Duration>,
}

/// The disrupted pods that are still expected to terminate.
fn disrupted(budget: &Budget, pods: &[Arc<Pod>], now: Timestamp) -> Disrupted {
    let mut all = Disrupted { terminating: BTreeMap::new(), not_deleted: Vec::new(), after: None };
    for pod in pods.iter().filter(|pod| !pod.metadata.is_terminating()) {
        let name: Box<str> = pod.metadata.name().into();
        let Some(since) = budget.status.disrupted_pods.get(&name) else { continue };
        let until = since.0 + DELETION_TIMEOUT;
        if until < now {
            all.not_deleted.push(name);
        } else {
            // One millisecond later the timeout has passed.
            let wait = until.since(now) + Duration::from_millis(1);
            all.after = all.after.into_iter().chain([wait]).min();
            all.terminating.insert(name, *since);
        }
    }
    all
}
