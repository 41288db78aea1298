//! Decides on the jobs and the status of a cron job. Pure.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::due::{due, next_look};
use super::object::{ConcurrencyPolicy, CronJob, CronJobStatus, JobReference};
use super::timetable::{ScheduleError, Timetable, rfc1123};
use crate::view::{Job, JobEnd};

/// Observed state that a decision is based on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    pub(super) cron_job: &'a CronJob,
    /// Jobs that the cron job manages.
    pub(super) jobs: &'a [Arc<Job>],
    /// Uids of active jobs that do not exist.
    pub(super) missing: &'a HashSet<Box<str>>,
    pub(super) now: Timestamp,
}

/// The steps to take, in this order.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Events to record.
    pub(super) events: Vec<PlannedEvent>,
    /// Finished jobs beyond the history limits.
    pub(super) delete: Vec<Arc<Job>>,
    /// Active jobs to delete first, by the concurrency policy.
    pub(super) replace: Vec<JobReference>,
    /// Job to create.
    pub(super) start: Option<Start>,
    /// New status, before the steps above change it further.
    pub(super) status: CronJobStatus,
    /// When to reconcile again if nothing changes.
    pub(super) after: Option<Duration>,
}

/// A job that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) scheduled: Timestamp,
    pub(super) name: String,
    /// The scheduled time as the job's annotation holds it.
    pub(super) annotation: String,
}

/// An event about the cron job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedEvent {
    pub(super) is_warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Plan {
    fn normal(&mut self, reason: &'static str, message: String) {
        self.events.push(PlannedEvent { is_warning: false, reason, message });
    }

    fn warn(&mut self, reason: &'static str, message: String) {
        self.events.push(PlannedEvent { is_warning: true, reason, message });
    }
}

/// Decides on all steps for a cron job.
pub(super) fn plan(observed: Observed<'_>) -> Plan {
    let Observed { cron_job, .. } = observed;
    let mut plan = Plan { status: cron_job.status.clone(), ..Plan::default() };
    plan.delete = beyond_history_limits(cron_job, observed.jobs);
    update_status(observed, &mut plan);
    if !cron_job.metadata.is_terminating() {
        schedule(observed, &mut plan);
    }
    plan
}

/// The oldest finished jobs beyond the history limits.
fn beyond_history_limits(cron_job: &CronJob, jobs: &[Arc<Job>]) -> Vec<Arc<Job>> {
    let spec = &cron_job.spec;
    let limits = [
        (JobEnd::Complete, spec.successful_jobs_history_limit),
        (JobEnd::Failed, spec.failed_jobs_history_limit),
    ];
    let mut all = Vec::new();
    for (end, limit) in limits {
        let Some(limit) = limit else { continue };
        let mut ended: Vec<_> = jobs.iter().filter(|job| job.end() == Some(end)).cloned().collect();
        // Jobs that never started count as the youngest.
        ended.sort_by_key(|job| {
            let start = job.status.start_time;
            (start.is_none(), start, job.metadata.name().to_owned())
        });
        let surplus = ended.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
        all.extend(ended.into_iter().take(surplus));
    }
    all
}

/// Updates the status from the state of the jobs.
fn update_status(observed: Observed<'_>, plan: &mut Plan) {
    for job in observed.jobs {
        let name = job.metadata.name();
        let is_active = plan.status.active.iter().any(|active| active.is_to(job));
        match job.end() {
            None if !is_active => {
                let message = format!("Saw a job that the controller did not create or forgot: {name}");
                plan.warn("UnexpectedJob", message);
            }
            None => {}
            Some(end) => {
                if is_active {
                    plan.status.active.retain(|active| !active.is_to(job));
                    let message = format!("Saw completed job: {name}, condition: {}", end.as_str());
                    plan.normal("SawCompletedJob", message);
                }
                if end == JobEnd::Complete {
                    let last = &mut plan.status.last_successful_time;
                    *last = (*last).max(job.status.completion_time);
                }
            }
        }
    }
    let missing = |active: &JobReference| observed.missing.contains(&active.uid);
    for missing in plan.status.active.extract_if(.., |active| missing(active)).collect::<Vec<_>>() {
        plan.normal("MissingJob", format!("Active job went missing: {}", missing.name));
    }
}

/// Determines whether a job is due, and when to check again.
fn schedule(observed: Observed<'_>, plan: &mut Plan) {
    let Observed { cron_job, now, .. } = observed;
    let spec = &cron_job.spec;
    let timetable = Timetable::read(&spec.schedule, spec.time_zone.as_deref());
    if let Err(ScheduleError::Zone(error)) = &timetable {
        let zone = spec.time_zone.as_deref().unwrap_or_default();
        return plan.warn("UnknownTimeZone", format!("invalid timeZone: {zone:?}: {error}"));
    }
    if spec.suspend {
        return;
    }
    let schedule = &spec.schedule;
    if schedule.contains("TZ") {
        plan.warn("UnsupportedSchedule", format!(
            "CRON_TZ or TZ used in schedule {schedule:?} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        ));
    }
    let timetable = match timetable {
        Ok(timetable) => timetable,
        Err(ScheduleError::Zone(error) | ScheduleError::Schedule(error)) => {
            return plan.warn("UnparseableSchedule", format!("unparseable schedule: {schedule:?} : {error}"));
        }
    };
    let due = match due(cron_job, &timetable, now) {
        Ok(due) => due,
        Err(error) => return plan.warn("InvalidSchedule", format!("invalid schedule: {schedule} : {error}")),
    };
    plan.after = next_look(cron_job, &timetable, now);
    let Some(scheduled) = due.last else { return };
    if due.are_many_missed() {
        let message =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.warn("TooManyMissedTimes", message.to_owned());
    }
    start(observed, &timetable, scheduled, plan);
}

/// Plans a job for a scheduled time, unless it is already started, too late, or not allowed.
fn start(observed: Observed<'_>, timetable: &Timetable, scheduled: Timestamp, plan: &mut Plan) {
    let Observed { cron_job, now, .. } = observed;
    let spec = &cron_job.spec;
    let deadline = spec.starting_deadline_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    if deadline.is_some_and(|seconds| scheduled + Duration::from_secs(seconds) < now) {
        let message = format!("Missed scheduled time to start a job: {}", rfc1123(scheduled));
        return plan.warn("MissSchedule", message);
    }
    let name = format!("{}-{}", cron_job.metadata.name(), scheduled.as_millis() / 60_000);
    let is_active = plan.status.active.iter().any(|active| *active.name == *name);
    if is_active || cron_job.status.last_schedule_time == Some(scheduled) {
        return;
    }
    match spec.concurrency_policy {
        ConcurrencyPolicy::Forbid if !plan.status.active.is_empty() => {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            return plan.normal("JobAlreadyActive", message.to_owned());
        }
        ConcurrencyPolicy::Replace => plan.replace = plan.status.active.clone(),
        ConcurrencyPolicy::Allow | ConcurrencyPolicy::Forbid => {}
    }
    let annotation = timetable.rfc3339(scheduled, spec.time_zone.as_deref());
    plan.start = Some(Start { scheduled, name, annotation });
    let mut started = cron_job.clone();
    started.status.last_schedule_time = Some(scheduled);
    plan.after = next_look(&started, timetable, now);
}
