//! Counts each pod of a job once, whatever fails in between.
//!
//! A finished pod keeps the tracking finalizer until the status lists its uid. Only then the finalizer is removed,
//! and after that the uid is moved from the list to the count. So wherever a sync stops, the next one finds every pod
//! either with its finalizer, or listed by uid, or counted. A completed index needs no uid: it is counted once
//! however many pods report it.

use std::collections::HashSet;
use std::sync::Arc;

use super::FINALIZER;
use super::facts::{Facts, has_valid_index, index_of, is_failed, number};
use super::failure_policy::{failure_action, rule_about};
use super::plan::{FAILURE_REASONS, Plan, new_condition};
use crate::view::{Condition, Job, JobStatus, Phase, Pod, UncountedTerminatedPods, condition};

/// Maximum number of uids in the status, some 20 KB: Kubernetes' `MaxUncountedPods`.
const MAX_UNCOUNTED: usize = 500;

/// Result of the planned change of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) created: i32,
    pub(super) deleted: i32,
    /// Number of deleted pods that were ready.
    pub(super) deleted_ready: i32,
}

/// An event about the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedEvent {
    pub(super) is_warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: Box<str>,
}

impl PlannedEvent {
    fn new(is_warning: bool, reason: &'static str, message: &str) -> Self {
        Self { is_warning, reason, message: message.into() }
    }
}

/// Status to write and finalizers to remove, in this order.
#[derive(Debug)]
pub(super) struct Tracking {
    /// To write first.
    pub(super) status: JobStatus,
    /// Events to record once the status is written.
    pub(super) events: Vec<PlannedEvent>,
    /// Pods whose finalizer to remove once the status is written.
    pub(super) remove_finalizer: Vec<Arc<Pod>>,
    /// Actions of the pod failure rules that these pods matched.
    pub(super) handled: Vec<&'static str>,
    /// Uids of pods that still have the finalizer.
    with_finalizer: HashSet<Box<str>>,
    /// Condition to set when no pods are left to count.
    finished: Option<Condition>,
    /// True if the finalizers of all finished pods are in this batch.
    is_complete: bool,
}

/// Computes the status after the pods were changed as planned.
pub(super) fn track(plan: &Plan<'_>, outcome: Outcome) -> Tracking {
    let facts = &plan.facts;
    let mut status = facts.job.status.clone();
    status.start_time = facts.start_time;
    count_pods(facts, outcome, &mut status);
    let with_finalizer = facts
        .pods
        .iter()
        .filter(|pod| has_tracking_finalizer(pod))
        .map(|pod| pod.metadata.uid().into())
        .collect();
    let mut tracking = Tracking {
        status,
        events: Vec::new(),
        remove_finalizer: Vec::new(),
        handled: Vec::new(),
        with_finalizer,
        finished: finished(plan, outcome),
        is_complete: true,
    };
    if tracking.finished.is_none() && plan.finished.is_none() && !facts.job.metadata.is_terminating() {
        tracking.suspend_or_resume(facts);
    }
    tracking.count_released();
    tracking.add_uncounted(facts);
    tracking.set_indexes(facts);
    tracking.set_interim_condition(facts);
    tracking
}

fn has_tracking_finalizer(pod: &Pod) -> bool {
    pod.metadata.has_finalizer(FINALIZER)
}

fn count_pods(facts: &Facts<'_>, outcome: Outcome, status: &mut JobStatus) {
    let ready = number(facts.active.iter().filter(|pod| pod.is_ready()).count());
    status.active = number(facts.active.len()) + outcome.created - outcome.deleted;
    status.ready = Some(ready - outcome.deleted_ready);
    status.terminating = Some(facts.terminating + outcome.deleted);
}

/// The condition of a finished job: the planned one once all pods are terminating, or completion.
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
    /// Records that the finalizers of these pods are removed.
    pub(super) fn released<'a>(&mut self, released: impl IntoIterator<Item = &'a str>) {
        for uid in released {
            self.with_finalizer.remove(uid);
        }
        self.count_released();
    }

    /// Moves uids without a finalizer to the counts.
    fn count_released(&mut self) {
        let UncountedTerminatedPods { succeeded, failed } = &mut self.status.uncounted_terminated_pods;
        for (uids, count) in [(succeeded, &mut self.status.succeeded), (failed, &mut self.status.failed)] {
            let before = uids.len();
            uids.retain(|uid| self.with_finalizer.contains(uid));
            *count = count.saturating_add(number(before - uids.len()));
        }
    }

    /// Finishes the job if no pod is left to count or terminating. Returns the events to record.
    pub(super) fn finish(&mut self, job: &Job) -> Vec<PlannedEvent> {
        let status = &mut self.status;
        let uncounted = &status.uncounted_terminated_pods;
        let is_counted = uncounted.succeeded.is_empty() && uncounted.failed.is_empty();
        if !is_counted || !self.is_complete || status.terminating.is_some_and(|pods| pods > 0) {
            return Vec::new();
        }
        let Some(finished) = self.finished.take() else { return Vec::new() };
        let events = if &*finished.r#type == "Complete" {
            status.completion_time = finished.last_transition_time;
            let too_many = job.spec.completions.is_some_and(|wanted| status.succeeded > wanted);
            let warning = "Too many succeeded pods running after completion count reached";
            let warning = too_many.then(|| PlannedEvent::new(true, "TooManySucceededPods", warning));
            warning.into_iter().chain([PlannedEvent::new(false, "Completed", "Job completed")]).collect()
        } else {
            vec![PlannedEvent::new(true, event_reason(&finished.reason), &finished.message)]
        };
        set_condition(&mut status.conditions, finished);
        events
    }

    fn suspend_or_resume(&mut self, facts: &Facts<'_>) {
        let known = condition(&self.status.conditions, "Suspended");
        if facts.job.spec.suspend {
            let suspended = new_condition("Suspended", "JobSuspended", "Job suspended", facts.now);
            if set_condition(&mut self.status.conditions, suspended) {
                self.events.push(PlannedEvent::new(false, "Suspended", "Job suspended"));
                self.status.start_time = None;
            }
        } else if known.is_some() {
            // The condition is set to false only if it was true before.
            let resumed = new_condition("Suspended", "JobResumed", "Job resumed", facts.now);
            if set_condition(&mut self.status.conditions, Condition { status: "False".into(), ..resumed }) {
                self.events.push(PlannedEvent::new(false, "Resumed", "Job resumed"));
                // The active deadline restarts.
                self.status.start_time = Some(facts.now);
            }
        }
    }

    /// Collects the pods whose finalizer can be removed, and lists those to count.
    fn add_uncounted(&mut self, facts: &Facts<'_>) {
        let mut pods: Vec<&Arc<Pod>> = facts.pods.iter().filter(|pod| has_tracking_finalizer(pod)).collect();
        if facts.indexes.is_some() {
            pods.sort_by_key(|pod| index_of(pod));
        }
        let mut new_indexes = 0;
        for pod in pods {
            if !self.can_remove_finalizer(facts, pod) {
                continue;
            }
            self.remove_finalizer.push(Arc::clone(pod));
            new_indexes += self.count(facts, pod);
            let uncounted = &self.status.uncounted_terminated_pods;
            if new_indexes + uncounted.succeeded.len() + uncounted.failed.len() >= MAX_UNCOUNTED {
                // The remaining pods follow after these are counted.
                self.is_complete = false;
                break;
            }
        }
    }

    fn can_remove_finalizer(&self, facts: &Facts<'_>, pod: &Pod) -> bool {
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

    /// Lists the uid of a pod to count. Returns the number of indexes that it completes.
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
        // Unfinished pods fail with the job.
        if (is_failed(facts.job, pod) || ends_badly) && is_ours {
            self.handled.extend(rule_about(facts.job, pod));
            if failure_action(facts.job, pod).counts() {
                uncounted.failed.push(uid.into());
            }
        }
        0
    }

    fn set_indexes(&mut self, facts: &Facts<'_>) {
        if let Some(indexes) = &facts.indexes {
            self.status.succeeded = indexes.succeeded.len();
            self.status.completed_indexes = indexes.succeeded.to_string().into();
            self.status.failed_indexes = indexes.failed.as_ref().map(|failed| failed.to_string().into());
        }
    }

    /// Sets the interim condition before finalizers are removed, because the reason is lost with the pods.
    fn set_interim_condition(&mut self, facts: &Facts<'_>) {
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

/// The reason for the event. Another controller may have set an unknown reason.
fn event_reason(reason: &str) -> &'static str {
    let known = FAILURE_REASONS.iter().find(|known| **known == reason);
    known.copied().unwrap_or("JobFailed")
}

/// True if the condition has changed.
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
