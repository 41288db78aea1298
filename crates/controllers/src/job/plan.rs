//! Plans the pods of a job, and decides whether it is finished. Pure.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::backoff::remaining_after;
use super::facts::{
    Facts, Observed, failures_of, failures_with, has_valid_index, index_of, is_failed, is_terminating,
    number, replaces_only_finished,
};
use super::failure_policy::{Failure, failure_action};
use super::indexes::Indexes;
use super::success_policy;
use crate::pod_control::deletion_order;
use crate::view::{Condition, Job, Phase, Pod};

/// Maximum number of pods created or deleted per sync: Kubernetes' `MaxPodCreateDeletePerSync`.
const MAX_PODS: usize = 500;

/// Reasons of failed jobs.
pub(super) const FAILURE_REASONS: [&str; 5] = [
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
];

/// Steps to take.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) facts: Facts<'a>,
    /// The condition to set if the job is finished.
    pub(super) finished: Option<Condition>,
    pub(super) change: PodChange,
    /// When to reconcile again if nothing changes.
    pub(super) after: Option<Duration>,
}

/// Change of pods.
#[derive(Debug)]
pub(super) enum PodChange {
    Nothing,
    /// Delete because the job is finished; they are still to be counted.
    End(Vec<Arc<Pod>>),
    /// Delete surplus pods, which do not count.
    Remove(Vec<Arc<Pod>>),
    Create(Vec<NewPod>),
}

/// A pod to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NewPod {
    /// For indexed jobs.
    pub(super) index: Option<i32>,
    /// Counted and ignored failures of the index, if there is a backoff limit per index.
    pub(super) failures: Option<(i32, i32)>,
}

/// Plans for a job that is not finished and is managed by this controller.
pub(super) fn plan(known: Observed<'_>) -> Plan<'_> {
    let facts = Facts::of(known);
    if let Some(finished) = finished_condition(&facts) {
        let change = PodChange::End(facts.active.clone());
        return Plan { facts, finished: Some(finished), change, after: None };
    }
    let deadline = remaining(&facts);
    let (change, backoff) =
        if facts.job.metadata.is_terminating() { (PodChange::Nothing, None) } else { manage(&facts) };
    Plan { facts, finished: None, change, after: deadline.into_iter().chain(backoff).min() }
}

/// A condition that has just become true.
pub(super) fn new_condition(r#type: &str, reason: &str, message: &str, now: Timestamp) -> Condition {
    // Timestamps of the API have a precision of one second.
    let now = Timestamp::from_millis(now.as_millis() / 1000 * 1000);
    Condition {
        r#type: r#type.into(),
        status: "True".into(),
        last_probe_time: Some(now),
        last_transition_time: Some(now),
        reason: reason.into(),
        message: message.into(),
        ..Condition::default()
    }
}

/// Why a job ends before all its pods have succeeded. A decision in the status is final.
fn finished_condition(facts: &Facts<'_>) -> Option<Condition> {
    let (job, now) = (facts.job, facts.now);
    if let Some(succeeded) = job.true_condition("SuccessCriteriaMet") {
        return Some(succeeded.clone());
    }
    if let Some(failing) = job.true_condition("FailureTarget") {
        return Some(new_condition("Failed", &failing.reason, &failing.message, now));
    }
    if let Some((reason, message)) = failure(facts) {
        return Some(new_condition("FailureTarget", reason, &message, now));
    }
    let message = success_policy::met(job, &facts.indexes.as_ref()?.succeeded)?;
    Some(new_condition("SuccessCriteriaMet", "SuccessPolicy", &message, now))
}

/// Why a job has failed; the first reason in this order counts.
fn failure(facts: &Facts<'_>) -> Option<(&'static str, String)> {
    let job = facts.job;
    let failed = facts.pods.iter().filter(|pod| is_failed(job, pod));
    for failure in failed.map(|pod| failure_action(job, pod)) {
        if let Failure::FailJob { message } = failure {
            return Some(("PodFailurePolicy", message));
        }
    }
    let fail_with = |reason, message: &str| Some((reason, message.to_owned()));
    if facts.failed > job.backoff_limit() || restarts_exceed_limit(facts) {
        return fail_with("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    if remaining(facts) == Some(Duration::ZERO) {
        return fail_with("DeadlineExceeded", "Job was active longer than specified deadline");
    }
    let indexes = facts.indexes.as_ref()?;
    let failed = indexes.failed.as_ref()?.len();
    if job.spec.max_failed_indexes.is_some_and(|limit| failed > limit) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return fail_with("MaxFailedIndexesExceeded", message);
    }
    let completions = job.spec.completions.unwrap_or_default();
    if failed > 0 && failed + indexes.succeeded.len() >= completions {
        return fail_with("FailedIndexes", "Job has failed indexes");
    }
    None
}

/// True if containers were restarted too often. Such pods do not fail by themselves.
fn restarts_exceed_limit(facts: &Facts<'_>) -> bool {
    if &*facts.job.spec.template.restart_policy != "OnFailure" {
        return false;
    }
    let runs = |pod: &&Arc<Pod>| matches!(pod.status.phase, Phase::Running | Phase::Pending);
    let of = |pod: &Arc<Pod>| -> i32 {
        let status = &pod.status;
        let all = status.container_statuses.iter().chain(&status.init_container_statuses);
        all.map(|status| status.restart_count).fold(0, i32::saturating_add)
    };
    let restarts = facts.pods.iter().filter(runs).map(of).fold(0, i32::saturating_add);
    restarts > 0 && restarts >= facts.job.backoff_limit()
}

/// Remaining time of the active deadline, if there is one.
fn remaining(facts: &Facts<'_>) -> Option<Duration> {
    let seconds = facts.job.spec.active_deadline_seconds.filter(|_| !facts.job.spec.suspend)?;
    let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    Some((facts.start_time? + limit).since(facts.now))
}

/// Creates or deletes pods until the desired number is reached, and returns the delay before continuing.
fn manage(facts: &Facts<'_>) -> (PodChange, Option<Duration>) {
    let active = number(facts.active.len());
    if facts.job.spec.suspend {
        return (PodChange::Remove(facts.active.clone()), None);
    }
    let wanted = wanted(facts, active);
    let surplus = usize::try_from(active - wanted).unwrap_or_default();
    // Deletions come first, so that creations are based on the resulting state.
    let removed = to_remove(facts, surplus);
    if !removed.is_empty() {
        return (PodChange::Remove(removed), None);
    }
    let ending = if replaces_only_finished(facts.job) { facts.terminating } else { 0 };
    let missing = usize::try_from(wanted - ending - active).unwrap_or_default();
    if missing == 0 {
        return (PodChange::Nothing, None);
    }
    create(facts, missing)
}

/// Number of pods that should run.
fn wanted(facts: &Facts<'_>, active: i32) -> i32 {
    let parallelism = facts.job.parallelism();
    match facts.job.spec.completions {
        Some(completions) => (completions - facts.succeeded).min(parallelism).max(0),
        // Without completions one success is enough: running pods may finish, and no more are created.
        None if facts.succeeded > 0 => active,
        None => parallelism,
    }
}

/// Pods to delete: at least this many, and all with an invalid or duplicate index.
fn to_remove(facts: &Facts<'_>, at_least: usize) -> Vec<Arc<Pod>> {
    if at_least == 0 && !facts.job.is_indexed() {
        return Vec::new();
    }
    let mut pods = facts.active.clone();
    deletion_order(&mut pods, &[], facts.now);
    let mut taken = HashSet::new();
    // Of several pods with the same index the best one stays, which is the last.
    let mut keeps: Vec<bool> = pods
        .iter()
        .rev()
        .map(|pod| !facts.job.is_indexed() || has_valid_index(facts.job, pod) && taken.insert(index_of(pod)))
        .collect();
    keeps.reverse();
    let (kept, mut removed): (Vec<_>, Vec<_>) = pods.into_iter().zip(keeps).partition(|(_, keeps)| *keeps);
    let more = at_least.saturating_sub(removed.len());
    removed.extend(kept.into_iter().take(more));
    removed.into_iter().map(|(pod, _)| pod).take(MAX_PODS).collect()
}

/// Creates pods, unless the backoff delays that.
fn create(facts: &Facts<'_>, missing: usize) -> (PodChange, Option<Duration>) {
    let per_index = facts.job.spec.backoff_limit_per_index.is_some();
    let wait = facts.backoff.remaining(facts.now);
    if !per_index && !wait.is_zero() {
        return (PodChange::Nothing, Some(wait));
    }
    let count = missing.min(MAX_PODS);
    let Some(indexes) = &facts.indexes else {
        return (PodChange::Create(vec![NewPod { index: None, failures: None }; count]), None);
    };
    let pending = pending_indexes(facts, count);
    let new = |index: i32| NewPod { index: Some(index), failures: None };
    if !per_index {
        return (PodChange::Create(pending.into_iter().map(new).collect()), None);
    }
    let mut first_wait = None;
    let mut pods = Vec::new();
    for index in pending {
        let replaced = indexes.replaced.get(&index);
        let wait = replaced.map_or(Duration::ZERO, |pod| {
            let failures = failures_of(pod).saturating_add(1);
            remaining_after(pod, failures.unsigned_abs(), facts.now)
        });
        if wait.is_zero() {
            let failures = replaced.map_or((0, 0), |pod| failures_with(facts.job, pod));
            pods.push(NewPod { failures: Some(failures), ..new(index) });
        } else {
            first_wait = first_wait.into_iter().chain([wait]).min();
        }
    }
    if pods.is_empty() { (PodChange::Nothing, first_wait) } else { (PodChange::Create(pods), first_wait) }
}

/// The first indexes without a running pod that are not completed or failed.
fn pending_indexes(facts: &Facts<'_>, count: usize) -> Vec<i32> {
    let Some(indexes) = &facts.indexes else { return Vec::new() };
    let of = |pods: &mut dyn Iterator<Item = &Arc<Pod>>| -> Indexes {
        pods.filter_map(|pod| index_of(pod)).collect()
    };
    let mut taken = indexes.succeeded.union(&of(&mut facts.active.iter()));
    if replaces_only_finished(facts.job) {
        taken = taken.union(&of(&mut facts.pods.iter().filter(|pod| is_terminating(pod))));
    }
    if let Some(failed) = &indexes.failed {
        taken = taken.union(failed);
    }
    taken.first_missing(count, completions(facts.job))
}

fn completions(job: &Job) -> i32 {
    job.spec.completions.unwrap_or_default()
}
