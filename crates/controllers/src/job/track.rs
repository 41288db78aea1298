//! Counting each pod of a job once, whatever may fail in between.
//!
//! A pod that came to its end is held by a finalizer until the status knows its identity. Only then it is let
//! go, and when it has been, it moves from the identities to the counts. So wherever this stops, the next
//! look finds every pod either held, or known by its identity, or counted. An index that succeeded needs no
//! identity: it is counted once however many pods say so.

use std::collections::HashSet;
use std::sync::Arc;

use super::FINALIZER;
use super::facts::{Facts, has_valid_index, index_of, is_failed, number};
use super::failure_policy::{judge, rule_about};
use super::plan::{FAILURE_REASONS, Plan, new_condition};
use crate::view::{Condition, Job, JobStatus, Phase, Pod, UncountedTerminatedPods, condition};

/// The most identities a status holds, some 20 KB, as upstream's `MaxUncountedPods`.
const MAX_UNCOUNTED: usize = 500;

/// What became of the change of pods that was planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) created: i32,
    pub(super) deleted: i32,
    /// How many of those that were deleted had been ready.
    pub(super) deleted_ready: i32,
}

/// Something to tell people about the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) is_warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: Box<str>,
}

impl Told {
    fn new(is_warning: bool, reason: &'static str, message: &str) -> Self {
        Self { is_warning, reason, message: message.into() }
    }
}

/// What to write and whom to let go, in this order.
#[derive(Debug)]
pub(super) struct Tracking {
    /// To be written first.
    pub(super) status: JobStatus,
    /// Told once the status is written.
    pub(super) told: Vec<Told>,
    /// To be let go once the status is written.
    pub(super) let_go: Vec<Arc<Pod>>,
    /// What rules said about the failures of those pods.
    pub(super) handled: Vec<&'static str>,
    /// Pods that are not let go yet.
    held: HashSet<Box<str>>,
    /// What the job becomes when nothing is left to count.
    finished: Option<Condition>,
    /// Whether all that could be let go is.
    is_complete: bool,
}

/// What the status of a job becomes, after pods were changed as planned.
pub(super) fn track(plan: &Plan<'_>, outcome: Outcome) -> Tracking {
    let facts = &plan.facts;
    let mut status = facts.job.status.clone();
    status.start_time = facts.start_time;
    count_pods(facts, outcome, &mut status);
    let held = facts.pods.iter().filter(|pod| is_held(pod)).map(|pod| pod.metadata.uid().into()).collect();
    let mut tracking = Tracking {
        status,
        told: Vec::new(),
        let_go: Vec::new(),
        handled: Vec::new(),
        held,
        finished: finished(plan, outcome),
        is_complete: true,
    };
    if tracking.finished.is_none() && plan.finished.is_none() && !facts.job.metadata.is_terminating() {
        tracking.suspend_or_resume(facts);
    }
    tracking.settle_held();
    tracking.add_uncounted(facts);
    tracking.note_indexes(facts);
    tracking.note_interim_condition(facts);
    tracking
}

fn is_held(pod: &Pod) -> bool {
    pod.metadata.has_finalizer(FINALIZER)
}

fn count_pods(facts: &Facts<'_>, outcome: Outcome, status: &mut JobStatus) {
    let ready = number(facts.active.iter().filter(|pod| pod.is_ready()).count());
    status.active = number(facts.active.len()) + outcome.created - outcome.deleted;
    status.ready = Some(ready - outcome.deleted_ready);
    status.terminating = Some(facts.terminating + outcome.deleted);
}

/// Why a job is over: for the reason that was planned, if all its pods are going, or because enough of them
/// have succeeded.
fn finished(plan: &Plan<'_>, outcome: Outcome) -> Option<Condition> {
    let facts = &plan.facts;
    let active = number(facts.active.len()) + outcome.created - outcome.deleted;
    if plan.finished.is_some() {
        return plan.finished.clone().filter(|_| active == 0);
    }
    let enough = match facts.job.spec.completions {
        Some(completions) => facts.succeeded >= completions,
        None => facts.succeeded > 0,
    };
    let message = "Reached expected number of succeeded pods";
    let condition = || new_condition("SuccessCriteriaMet", "CompletionsReached", message, facts.now);
    (enough && active == 0).then(condition)
}

impl Tracking {
    /// Notes which pods were let go.
    pub(super) fn settle<'a>(&mut self, released: impl IntoIterator<Item = &'a str>) {
        for uid in released {
            self.held.remove(uid);
        }
        self.settle_held();
    }

    /// Counts those that nothing holds any more.
    fn settle_held(&mut self) {
        let UncountedTerminatedPods { succeeded, failed } = &mut self.status.uncounted_terminated_pods;
        for (uids, count) in [(succeeded, &mut self.status.succeeded), (failed, &mut self.status.failed)] {
            let before = uids.len();
            uids.retain(|uid| self.held.contains(uid));
            *count = count.saturating_add(number(before - uids.len()));
        }
    }

    /// Ends the job, if there is nothing left to count and nobody left to go. What to tell people then.
    pub(super) fn finish(&mut self, job: &Job) -> Vec<Told> {
        let status = &mut self.status;
        let uncounted = &status.uncounted_terminated_pods;
        let is_counted = uncounted.succeeded.is_empty() && uncounted.failed.is_empty();
        if !is_counted || !self.is_complete || status.terminating.is_some_and(|pods| pods > 0) {
            return Vec::new();
        }
        let Some(finished) = self.finished.take() else { return Vec::new() };
        let told = if &*finished.r#type == "Complete" {
            status.completion_time = finished.last_transition_time;
            let too_many = job.spec.completions.is_some_and(|wanted| status.succeeded > wanted);
            let warning = "Too many succeeded pods running after completion count reached";
            let warning = too_many.then(|| Told::new(true, "TooManySucceededPods", warning));
            warning.into_iter().chain([Told::new(false, "Completed", "Job completed")]).collect()
        } else {
            vec![Told::new(true, reason_told(&finished.reason), &finished.message)]
        };
        set_condition(&mut status.conditions, finished);
        told
    }

    fn suspend_or_resume(&mut self, facts: &Facts<'_>) {
        let known = condition(&self.status.conditions, "Suspended");
        if facts.job.spec.suspend {
            let suspended = new_condition("Suspended", "JobSuspended", "Job suspended", facts.now);
            if set_condition(&mut self.status.conditions, suspended) {
                self.told.push(Told::new(false, "Suspended", "Job suspended"));
                self.status.start_time = None;
            }
        } else if known.is_some() {
            // That it is not suspended is only worth saying if it was.
            let resumed = new_condition("Suspended", "JobResumed", "Job resumed", facts.now);
            if set_condition(&mut self.status.conditions, Condition { status: "False".into(), ..resumed }) {
                self.told.push(Told::new(false, "Resumed", "Job resumed"));
                // The deadline is for the time it runs.
                self.status.start_time = Some(facts.now);
            }
        }
    }

    /// Finds out which pods can be let go, and which of them are to be counted.
    fn add_uncounted(&mut self, facts: &Facts<'_>) {
        let mut pods: Vec<&Arc<Pod>> = facts.pods.iter().filter(|pod| is_held(pod)).collect();
        if facts.indexes.is_some() {
            pods.sort_by_key(|pod| index_of(pod));
        }
        let mut new_indexes = 0;
        for pod in pods {
            if !self.can_let_go(facts, pod) {
                continue;
            }
            self.let_go.push(Arc::clone(pod));
            new_indexes += self.count(facts, pod);
            let uncounted = &self.status.uncounted_terminated_pods;
            if new_indexes + uncounted.succeeded.len() + uncounted.failed.len() >= MAX_UNCOUNTED {
                // The rest has its turn when these are counted.
                self.is_complete = false;
                break;
            }
        }
    }

    fn can_let_go(&self, facts: &Facts<'_>, pod: &Pod) -> bool {
        let is_over = facts.job.metadata.is_terminating() || self.finished.is_some();
        if is_over || pod.status.phase == Phase::Succeeded {
            return true;
        }
        let is_replaced = |pod: &Pod| {
            let replaced = facts.indexes.as_ref().and_then(|indexes| indexes.replaced.get(&index_of(pod)?));
            replaced.is_some_and(|replaced| replaced.metadata.uid() == pod.metadata.uid())
        };
        is_failed(facts.job, pod) && !is_replaced(pod)
    }

    /// Notes the identity of a pod that is to be counted. How many indexes have succeeded by it.
    fn count(&mut self, facts: &Facts<'_>, pod: &Pod) -> usize {
        let uid = pod.metadata.uid();
        let uncounted = &mut self.status.uncounted_terminated_pods;
        let is_known = |uids: &[Box<str>]| uids.iter().any(|known| **known == *uid);
        if is_known(&uncounted.failed) || is_known(&uncounted.succeeded) {
            return 0;
        }
        if pod.status.phase == Phase::Succeeded {
            let Some(indexes) = &facts.indexes else {
                uncounted.succeeded.push(uid.into());
                return 0;
            };
            let is_new = |index: &i32| has_valid_index(facts.job, pod) && !indexes.before.contains(*index);
            return usize::from(index_of(pod).filter(is_new).is_some());
        }
        let ends_badly =
            self.finished.as_ref().is_some_and(|finished| &*finished.r#type != "SuccessCriteriaMet");
        let is_ours = facts.indexes.is_none() || has_valid_index(facts.job, pod);
        // With the job everything ends that has not yet.
        if (is_failed(facts.job, pod) || ends_badly) && is_ours {
            self.handled.extend(rule_about(facts.job, pod));
            if judge(facts.job, pod).counts() {
                uncounted.failed.push(uid.into());
            }
        }
        0
    }

    fn note_indexes(&mut self, facts: &Facts<'_>) {
        if let Some(indexes) = &facts.indexes {
            self.status.succeeded = indexes.succeeded.len();
            self.status.completed_indexes = indexes.succeeded.to_string().into();
            self.status.failed_indexes = indexes.failed.as_ref().map(|failed| failed.to_string().into());
        }
    }

    /// Says that the job is about to end before pods are let go: what they said of it is lost with them.
    fn note_interim_condition(&mut self, facts: &Facts<'_>) {
        let Some(finished) = &mut self.finished else { return };
        let end = match &*finished.r#type {
            "FailureTarget" => "Failed",
            "SuccessCriteriaMet" => "Complete",
            _ => return,
        };
        if condition(&self.status.conditions, &finished.r#type).is_none_or(|known| !known.is_true()) {
            set_condition(&mut self.status.conditions, finished.clone());
        }
        *finished = new_condition(end, &finished.reason, &finished.message, facts.now);
    }
}

/// The reason of a failure as it stands in events. Whoever else made a job fail may have given another one.
fn reason_told(reason: &str) -> &'static str {
    let known = FAILURE_REASONS.iter().find(|known| **known == reason);
    known.copied().unwrap_or("JobFailed")
}

/// Whether that changed anything.
fn set_condition(conditions: &mut Vec<Condition>, new: Condition) -> bool {
    match conditions.iter_mut().find(|known| known.r#type == new.r#type) {
        Some(known)
            if (&known.status, &known.reason, &known.message) == (&new.status, &new.reason, &new.message) =>
        {
            false
        }
        Some(known) => {
            *known = new;
            true
        }
        None => {
            conditions.push(new);
            true
        }
    }
}
