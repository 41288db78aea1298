//! What is known of a job and its pods, counted.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use coracle_base::Timestamp;

use super::backoff::{Backoff, finished_at};
use super::failure_policy::{Failure, judge};
use super::indexes::Indexes;
use super::{FAILURE_COUNT, FINALIZER, IGNORED_FAILURE_COUNT, INDEX};
use crate::view::{Job, Phase, Pod};

/// What a decision about a job is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) job: &'a Job,
    /// The pods that are the job's.
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) backoff: Backoff,
    pub(super) now: Timestamp,
}

/// The same, counted.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) job: &'a Job,
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) now: Timestamp,
    /// Those that are neither at their end nor being deleted.
    pub(super) active: Vec<Arc<Pod>>,
    /// How many are being deleted and not at their end.
    pub(super) terminating: i32,
    /// How many pods have succeeded, or indexes, if pods have such.
    pub(super) succeeded: i32,
    /// How many pods have failed of those that count.
    pub(super) failed: i32,
    /// Since when it runs; none if it is suspended.
    pub(super) start_time: Option<Timestamp>,
    pub(super) backoff: Backoff,
    /// If pods have indexes.
    pub(super) indexes: Option<IndexFacts>,
}

/// What is known of the indexes of a job.
#[derive(Debug)]
pub(super) struct IndexFacts {
    /// Those that had succeeded by the status.
    pub(super) before: Indexes,
    pub(super) succeeded: Indexes,
    /// Those that are not tried again, if indexes fail by themselves.
    pub(super) failed: Option<Indexes>,
    /// The last pod of each index that has to be tried again. It is kept until there is another one, because
    /// its annotations say how often the index has failed.
    pub(super) replaced: BTreeMap<i32, Arc<Pod>>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(known: Known<'a>) -> Self {
        let Known { job, pods, backoff, now } = known;
        let active: Vec<_> = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
        let counted = Uncounted::of(job);
        let new = |filter: &dyn Fn(&Pod) -> bool| -> Vec<&Pod> {
            let fresh = |pod: &&Pod| is_to_count(job, pod) && !counted.has(pod);
            pods.iter().map(|pod| &**pod).filter(fresh).filter(|pod| filter(pod)).collect()
        };
        let succeeded = new(&|pod| pod.status.phase == Phase::Succeeded);
        let failed = new(&|pod| is_failed(job, pod));
        let counting = failed.iter().filter(|pod| judge(job, pod).counts()).count();
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
            let known = job.status.failed_indexes.as_deref().unwrap_or_default();
            let failed = Indexes::parse(known, completions)
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
        let known = self.replaced.entry(index).or_insert_with(|| Arc::clone(pod));
        if order(known) <= order(pod) {
            *known = Arc::clone(pod);
        }
    }
}

/// Pods that are in the status by their identities, and will be in its counts.
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

/// A number of pods as the API has it; there are never so many that it does not fit.
pub(super) fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Whether a pod is the job's to count: it has not let go of it, and its index is one of the job's.
pub(super) fn is_to_count(job: &Job, pod: &Pod) -> bool {
    pod.metadata.has_finalizer(FINALIZER) && (!job.is_indexed() || has_valid_index(job, pod))
}

/// Whether a pod has an index that the job has, too.
pub(super) fn has_valid_index(job: &Job, pod: &Pod) -> bool {
    index_of(pod).is_some_and(|index| index < job.spec.completions.unwrap_or_default())
}

/// The index of a pod.
pub(super) fn index_of(pod: &Pod) -> Option<i32> {
    count_in(pod, INDEX)
}

/// Whether pods are replaced only when they have come to their end, and not when they are deleted.
pub(super) fn waits_for_the_end(job: &Job) -> bool {
    &*job.spec.pod_replacement_policy == "Failed" || job.spec.pod_failure_policy.is_some()
}

/// Whether a pod has failed. One that is deleted may never say so, as when its node is gone.
pub(super) fn is_failed(job: &Job, pod: &Pod) -> bool {
    let gone = pod.metadata.is_terminating() && pod.status.phase != Phase::Succeeded;
    pod.status.phase == Phase::Failed || gone && !waits_for_the_end(job)
}

/// Whether a pod is being deleted and has not come to its end.
pub(super) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.is_terminating() && !pod.is_finished()
}

/// Whether there is no further pod for the index of one that failed.
fn fails_index(job: &Job, pod: &Pod, limit: i32) -> bool {
    match judge(job, pod) {
        Failure::FailIndex => true,
        Failure::Ignore => false,
        _ => count_in(pod, FAILURE_COUNT).unwrap_or_default() >= limit,
    }
}

/// How often the index of a pod failed before it, counting what is ignored.
pub(super) fn failures_of(pod: &Pod) -> i32 {
    let count = |annotation| count_in(pod, annotation).unwrap_or_default();
    count(FAILURE_COUNT).saturating_add(count(IGNORED_FAILURE_COUNT))
}

/// How often the index of a pod that failed has failed with it: what counts, and what is ignored.
pub(super) fn failures_with(job: &Job, pod: &Pod) -> (i32, i32) {
    let count = |annotation| count_in(pod, annotation).unwrap_or_default();
    let (counted, ignored) = (count(FAILURE_COUNT), count(IGNORED_FAILURE_COUNT));
    if judge(job, pod).counts() {
        (counted.saturating_add(1), ignored)
    } else {
        (counted, ignored.saturating_add(1))
    }
}

/// A count in an annotation; what people may have made of it that is none is left out of account.
fn count_in(pod: &Pod, annotation: &str) -> Option<i32> {
    pod.metadata.annotations.get(annotation)?.parse().ok().filter(|count| *count >= 0)
}
