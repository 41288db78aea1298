//! What is to be done about a cron job and its jobs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::due::{due, next_look};
use super::object::{ConcurrencyPolicy, CronJob, CronJobStatus, JobReference};
use super::timetable::{Timetable, Unreadable, rfc1123};
use crate::view::{Job, JobEnd};

/// What a decision is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) cron_job: &'a CronJob,
    /// The jobs it manages.
    pub(super) jobs: &'a [Arc<Job>],
    /// The identities of jobs that should run and are not there.
    pub(super) gone: &'a HashSet<Box<str>>,
    pub(super) now: Timestamp,
}

/// What is to be done, in this order.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// To be told.
    pub(super) told: Vec<Told>,
    /// Jobs that are over and more than are to be kept.
    pub(super) forget: Vec<Arc<Job>>,
    /// Jobs that run and have to make room.
    pub(super) replace: Vec<JobReference>,
    /// A job to be made, and what it is named.
    pub(super) start: Option<Start>,
    /// What the status becomes, apart from what the above adds to it.
    pub(super) status: CronJobStatus,
    /// When to look again if nothing happens.
    pub(super) after: Option<Duration>,
}

/// A job that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) scheduled: Timestamp,
    pub(super) name: String,
    /// The same time, as the job is to say it.
    pub(super) annotation: String,
}

/// Something to tell people about the cron job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) is_warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Plan {
    fn normal(&mut self, reason: &'static str, message: String) {
        self.told.push(Told { is_warning: false, reason, message });
    }

    fn warn(&mut self, reason: &'static str, message: String) {
        self.told.push(Told { is_warning: true, reason, message });
    }
}

/// Decides about a cron job.
pub(super) fn plan(known: Known<'_>) -> Plan {
    let Known { cron_job, .. } = known;
    let mut plan = Plan { status: cron_job.status.clone(), ..Plan::default() };
    plan.forget = to_forget(cron_job, known.jobs);
    note_jobs(known, &mut plan);
    if !cron_job.metadata.is_terminating() {
        schedule(known, &mut plan);
    }
    plan
}

/// The oldest jobs that are over and too many.
fn to_forget(cron_job: &CronJob, jobs: &[Arc<Job>]) -> Vec<Arc<Job>> {
    let spec = &cron_job.spec;
    let limits = [
        (JobEnd::Complete, spec.successful_jobs_history_limit),
        (JobEnd::Failed, spec.failed_jobs_history_limit),
    ];
    let mut all = Vec::new();
    for (end, limit) in limits {
        let Some(limit) = limit else { continue };
        let mut ended: Vec<_> = jobs.iter().filter(|job| job.end() == Some(end)).cloned().collect();
        // Those that never began count as the youngest.
        ended.sort_by_key(|job| {
            let start = job.status.start_time;
            (start.is_none(), start, job.metadata.name().to_owned())
        });
        let surplus = ended.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
        all.extend(ended.into_iter().take(surplus));
    }
    all
}

/// Brings the status up to what has become of jobs.
fn note_jobs(known: Known<'_>, plan: &mut Plan) {
    for job in known.jobs {
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
    let gone = |active: &JobReference| known.gone.contains(&active.uid);
    for missing in plan.status.active.extract_if(.., |active| gone(active)).collect::<Vec<_>>() {
        plan.normal("MissingJob", format!("Active job went missing: {}", missing.name));
    }
}

/// Finds out whether a job is due, and when to look again.
fn schedule(known: Known<'_>, plan: &mut Plan) {
    let Known { cron_job, now, .. } = known;
    let spec = &cron_job.spec;
    let timetable = Timetable::read(&spec.schedule, spec.time_zone.as_deref());
    if let Err(Unreadable::Zone(error)) = &timetable {
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
        Err(Unreadable::Zone(error) | Unreadable::Schedule(error)) => {
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
    start(known, &timetable, scheduled, plan);
}

/// Starts a job for a time, unless that was done, or is too late, or not allowed.
fn start(known: Known<'_>, timetable: &Timetable, scheduled: Timestamp, plan: &mut Plan) {
    let Known { cron_job, now, .. } = known;
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
