//! Counts the pods of a job.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use coracle_base::Timestamp;

use super::backoff::{Backoff, finished_at};
use super::failure_policy::{Failure, failure_action};
use super::indexes::Indexes;
use super::{FAILURE_COUNT, FINALIZER, IGNORED_FAILURE_COUNT, INDEX};
use crate::view::{Job, Phase, Pod};

/// Input of a decision about a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    pub(super) job: &'a Job,
    /// Pods that the job controls.
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) backoff: Backoff,
    pub(super) now: Timestamp,
}

/// The input, and counts derived from it.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) job: &'a Job,
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) now: Timestamp,
    /// Pods that are neither finished nor terminating.
    pub(super) active: Vec<Arc<Pod>>,
    /// Number of unfinished terminating pods.
    pub(super) terminating: i32,
    /// Number of succeeded pods, or of completed indexes for indexed jobs.
    pub(super) succeeded: i32,
    /// Number of failed pods that count.
    pub(super) failed: i32,
    /// When the job started; `None` if it is suspended.
    pub(super) start_time: Option<Timestamp>,
    pub(super) backoff: Backoff,
    /// For indexed jobs.
    pub(super) indexes: Option<IndexFacts>,
}

/// Indexes of a job by state.
#[derive(Debug)]
pub(super) struct IndexFacts {
    /// Completed indexes of the current status.
    pub(super) before: Indexes,
    pub(super) succeeded: Indexes,
    /// Indexes that are not retried, if there is a backoff limit per index.
    pub(super) failed: Option<Indexes>,
    /// Last failed pod of each index to retry. It is kept until it is replaced, because its annotations hold the
    /// failure count of the index.
    pub(super) replaced: BTreeMap<i32, Arc<Pod>>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(observed: Observed<'a>) -> Self {
        let Observed { job, pods, backoff, now } = observed;
        let active: Vec<_> = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
        let counted = Uncounted::of(job);
        let new = |filter: &dyn Fn(&Pod) -> bool| -> Vec<&Pod> {
            let fresh = |pod: &&Pod| is_to_count(job, pod) && !counted.has(pod);
            pods.iter().map(|pod| &**pod).filter(fresh).filter(|pod| filter(pod)).collect()
        };
        let succeeded = new(&|pod| pod.status.phase == Phase::Succeeded);
        let failed = new(&|pod| is_failed(job, pod));
        let counting = failed.iter().filter(|pod| failure_action(job, pod).counts()).count();
        let indexes = job.is_indexed().then(|| IndexFacts::of(job, pods, &active, &counted));
        let status = &job.status;
        let uncounted = &status.uncounted_terminated_pods;
        let of_pods = status.succeeded + number(succeeded.len() + uncounted.succeeded.len());
        Self {
            job,
            pods,
            now,
            terminating: number(pods.iter().filter(|pod| is_terminating(pod)).count()),
            succeeded: indexes.as_ref().map_or(of_pods, |indexes| indexes.succeeded.len()),
            failed: status.failed + number(counting + uncounted.failed.len()),
            start_time: status.start_time.or_else(|| (!job.spec.suspend).then_some(now)),
            backoff: backoff.after(&succeeded, &failed),
            active,
            indexes,
        }
    }
}

impl IndexFacts {
    fn of(job: &Job, pods: &[Arc<Pod>], active: &[Arc<Pod>], counted: &Uncounted<'_>) -> Self {
        let completions = job.spec.completions.unwrap_or_default();
        let valid = || pods.iter().filter(|pod| is_to_count(job, pod));
        let indexes_of = |filter: &dyn Fn(&Pod) -> bool| -> Indexes {
            valid().filter(|pod| filter(pod)).filter_map(|pod| index_of(pod)).collect()
        };
        let before = Indexes::parse(&job.status.completed_indexes, completions);
        let ended_well =
            |pod: &Pod| pod.status.phase == Phase::Succeeded && !counted.failed.contains(pod.metadata.uid());
        let succeeded = before.union(&indexes_of(&ended_well));
        let mut facts = Self { before, succeeded, failed: None, replaced: BTreeMap::new() };
        if let Some(limit) = job.spec.backoff_limit_per_index {
            let observed = job.status.failed_indexes.as_deref().unwrap_or_default();
            let failed = Indexes::parse(observed, completions)
                .union(&indexes_of(&|pod| is_failed(job, pod) && fails_index(job, pod, limit)));
            let over = facts
                .succeeded
                .union(&failed)
                .union(&active.iter().filter_map(|pod| index_of(pod)).collect());
            for pod in valid().filter(|pod| is_failed(job, pod)) {
                if let Some(index) = index_of(pod).filter(|index| !over.contains(*index)) {
                    facts.keep_last(index, pod);
                }
            }
            facts.failed = Some(failed);
        }
        facts
    }

    fn keep_last(&mut self, index: i32, pod: &Arc<Pod>) {
        let order = |pod: &Pod| (failures_of(pod), finished_at(pod));
        let observed = self.replaced.entry(index).or_insert_with(|| Arc::clone(pod));
        if order(observed) <= order(pod) {
            *observed = Arc::clone(pod);
        }
    }
}

/// Pods listed by uid in the status, which are not yet in its counts.
struct Uncounted<'a> {
    succeeded: HashSet<&'a str>,
    failed: HashSet<&'a str>,
}

impl<'a> Uncounted<'a> {
    fn of(job: &'a Job) -> Self {
        let set = |uids: &'a [Box<str>]| uids.iter().map(|uid| &**uid).collect();
        let uncounted = &job.status.uncounted_terminated_pods;
        Self { succeeded: set(&uncounted.succeeded), failed: set(&uncounted.failed) }
    }

    fn has(&self, pod: &Pod) -> bool {
        let uid = pod.metadata.uid();
        self.succeeded.contains(uid) || self.failed.contains(uid)
    }
}

/// A number of pods as in the API; it always fits.
pub(super) fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// True if the job has to count the pod: it has the tracking finalizer, and a valid index.
pub(super) fn is_to_count(job: &Job, pod: &Pod) -> bool {
    pod.metadata.has_finalizer(FINALIZER) && (!job.is_indexed() || has_valid_index(job, pod))
}

/// True if the pod has an index within the job's completions.
pub(super) fn has_valid_index(job: &Job, pod: &Pod) -> bool {
    index_of(pod).is_some_and(|index| index < job.spec.completions.unwrap_or_default())
}

/// Completion index of a pod.
pub(super) fn index_of(pod: &Pod) -> Option<i32> {
    count_in(pod, INDEX)
}

/// True if pods are replaced only when they are finished, not as soon as they are terminating.
pub(super) fn replaces_only_finished(job: &Job) -> bool {
    &*job.spec.pod_replacement_policy == "Failed" || job.spec.pod_failure_policy.is_some()
}

/// True if a pod has failed. A deleted pod may never report that, for example if its node is gone.
pub(super) fn is_failed(job: &Job, pod: &Pod) -> bool {
    let gone = pod.metadata.is_terminating() && pod.status.phase != Phase::Succeeded;
    pod.status.phase == Phase::Failed || gone && !replaces_only_finished(job)
}

/// True if a pod is terminating and not finished.
pub(super) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.is_terminating() && !pod.is_finished()
}

/// True if the index of a failed pod is not retried.
fn fails_index(job: &Job, pod: &Pod, limit: i32) -> bool {
    match failure_action(job, pod) {
        Failure::FailIndex => true,
        Failure::Ignore => false,
        _ => count_in(pod, FAILURE_COUNT).unwrap_or_default() >= limit,
    }
}

/// Number of earlier failures of the pod's index, including ignored ones.
pub(super) fn failures_of(pod: &Pod) -> i32 {
    let count = |annotation| count_in(pod, annotation).unwrap_or_default();
    count(FAILURE_COUNT).saturating_add(count(IGNORED_FAILURE_COUNT))
}

/// Numbers of counted and ignored failures of a failed pod's index, including this one.
pub(super) fn failures_with(job: &Job, pod: &Pod) -> (i32, i32) {
    let count = |annotation| count_in(pod, annotation).unwrap_or_default();
    let (counted, ignored) = (count(FAILURE_COUNT), count(IGNORED_FAILURE_COUNT));
    if failure_action(job, pod).counts() {
        (counted.saturating_add(1), ignored)
    } else {
        (counted, ignored.saturating_add(1))
    }
}

/// Parses a count in an annotation; values that users have made invalid are ignored.
fn count_in(pod: &Pod, annotation: &str) -> Option<i32> {
    pod.metadata.annotations.get(annotation)?.parse().ok().filter(|count| *count >= 0)
}
