//! What is to happen to the pods of a job, and whether it is over.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::backoff::remaining_after;
use super::facts::{
    Facts, Known, failures_of, failures_with, has_valid_index, index_of, is_failed, is_terminating, number,
    waits_for_the_end,
};
use super::failure_policy::{Failure, judge};
use super::indexes::Indexes;
use super::success_policy;
use crate::pod_control::deletion_order;
use crate::view::{Condition, Job, Phase, Pod};

/// The most pods that are made or deleted for a job before others have their turn, as upstream's
/// `MaxPodCreateDeletePerSync`.
const MAX_PODS: usize = 500;

/// Why jobs fail.
pub(super) const FAILURE_REASONS: [&str; 5] = [
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
];

/// What is to be done.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) facts: Facts<'a>,
    /// Why it is over, if it is.
    pub(super) finished: Option<Condition>,
    pub(super) change: PodChange,
    /// When to look again if nothing happens.
    pub(super) after: Option<Duration>,
}

/// What is to happen to pods.
#[derive(Debug)]
pub(super) enum PodChange {
    Nothing,
    /// They are deleted because the job is over, and are yet to be counted.
    End(Vec<Arc<Pod>>),
    /// They are deleted because they are too many. They do not count.
    Remove(Vec<Arc<Pod>>),
    Create(Vec<NewPod>),
}

/// A pod to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NewPod {
    /// If pods have such.
    pub(super) index: Option<i32>,
    /// How often the index has failed, and how often that did not count; if indexes fail by themselves.
    pub(super) failures: Option<(i32, i32)>,
}

/// Decides about a job that has not ended and is ours.
pub(super) fn plan(known: Known<'_>) -> Plan<'_> {
    let facts = Facts::of(known);
    if let Some(finished) = verdict(&facts) {
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
    // The API knows no parts of a second.
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

/// Why a job is over before all of it has succeeded. What was decided once stays so.
fn verdict(facts: &Facts<'_>) -> Option<Condition> {
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

/// Why a job has failed, in the order in which reasons count.
fn failure(facts: &Facts<'_>) -> Option<(&'static str, String)> {
    let job = facts.job;
    let failed = facts.pods.iter().filter(|pod| is_failed(job, pod));
    for failure in failed.map(|pod| judge(job, pod)) {
        if let Failure::FailJob { message } = failure {
            return Some(("PodFailurePolicy", message));
        }
    }
    let told = |reason, message: &str| Some((reason, message.to_owned()));
    if facts.failed > job.backoff_limit() || restarts_exceed_limit(facts) {
        return told("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    if remaining(facts) == Some(Duration::ZERO) {
        return told("DeadlineExceeded", "Job was active longer than specified deadline");
    }
    let indexes = facts.indexes.as_ref()?;
    let failed = indexes.failed.as_ref()?.len();
    if job.spec.max_failed_indexes.is_some_and(|limit| failed > limit) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return told("MaxFailedIndexesExceeded", message);
    }
    let completions = job.spec.completions.unwrap_or_default();
    if failed > 0 && failed + indexes.succeeded.len() >= completions {
        return told("FailedIndexes", "Job has failed indexes");
    }
    None
}

/// Whether containers were restarted too often. Such pods do not fail as long as nobody counts that.
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

/// How long the job may yet run, if there is a limit.
fn remaining(facts: &Facts<'_>) -> Option<Duration> {
    let seconds = facts.job.spec.active_deadline_seconds.filter(|_| !facts.job.spec.suspend)?;
    let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    Some((facts.start_time? + limit).since(facts.now))
}

/// Makes pods and deletes them until there are as many as wanted, and says when to go on.
fn manage(facts: &Facts<'_>) -> (PodChange, Option<Duration>) {
    let active = number(facts.active.len());
    if facts.job.spec.suspend {
        return (PodChange::Remove(facts.active.clone()), None);
    }
    let wanted = wanted(facts, active);
    let surplus = usize::try_from(active - wanted).unwrap_or_default();
    // One after the other, so that nothing is made that is not known to be missing.
    let removed = to_remove(facts, surplus);
    if !removed.is_empty() {
        return (PodChange::Remove(removed), None);
    }
    let ending = if waits_for_the_end(facts.job) { facts.terminating } else { 0 };
    let missing = usize::try_from(wanted - ending - active).unwrap_or_default();
    if missing == 0 {
        return (PodChange::Nothing, None);
    }
    create(facts, missing)
}

/// How many pods are to run.
fn wanted(facts: &Facts<'_>, active: i32) -> i32 {
    let parallelism = facts.job.parallelism();
    match facts.job.spec.completions {
        Some(completions) => (completions - facts.succeeded).min(parallelism).max(0),
        // One that succeeds speaks for all: the others may finish, and no more are made.
        None if facts.succeeded > 0 => active,
        None => parallelism,
    }
}

/// Which pods are too many: at least so many, and all that have no index of their own.
fn to_remove(facts: &Facts<'_>, at_least: usize) -> Vec<Arc<Pod>> {
    if at_least == 0 && !facts.job.is_indexed() {
        return Vec::new();
    }
    let mut pods = facts.active.clone();
    deletion_order(&mut pods, &[], facts.now);
    let mut taken = HashSet::new();
    // Of those that share an index the best stays, which is the last.
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

/// Makes pods, unless there is to be waited after failures.
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

/// The first indexes that nobody works on and that are not done with.
fn pending_indexes(facts: &Facts<'_>, count: usize) -> Vec<i32> {
    let Some(indexes) = &facts.indexes else { return Vec::new() };
    let of = |pods: &mut dyn Iterator<Item = &Arc<Pod>>| -> Indexes {
        pods.filter_map(|pod| index_of(pod)).collect()
    };
    let mut taken = indexes.succeeded.union(&of(&mut facts.active.iter()));
    if waits_for_the_end(facts.job) {
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
