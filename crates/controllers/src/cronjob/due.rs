//! Determines the time for which a cron job has to start a job, and when to check again.

use std::time::Duration;

use coracle_base::Timestamp;

use super::object::CronJob;
use super::timetable::Timetable;

/// Number of missed times above which a warning is recorded; Kubernetes' number.
const MANY: u64 = 100;

/// Added to a scheduled time, so that it is certainly due if clocks differ a little.
const MARGIN: Duration = Duration::from_millis(100);

/// The due time of a cron job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// Start of the interval that was checked.
    since: Timestamp,
    /// The latest time at which a job should have been started.
    pub(super) last: Option<Timestamp>,
    missed: u64,
}

impl Due {
    /// True if too many times were missed.
    pub(super) fn are_many_missed(&self) -> bool {
        self.missed > MANY
    }
}

/// The schedule has no times, such as February 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub(super) struct NoTimes;

/// The latest due time of a cron job whose starting deadline has not passed.
pub(super) fn due(cron_job: &CronJob, timetable: &Timetable, now: Timestamp) -> Result<Due, NoTimes> {
    let since = since(cron_job);
    let deadline = cron_job.spec.starting_deadline_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let since = deadline.map_or(since, |seconds| since.max(now - Duration::from_secs(seconds)));
    due_since(since, timetable, now)
}

/// Time until the next check, after everything due is done.
pub(super) fn next_look(cron_job: &CronJob, timetable: &Timetable, now: Timestamp) -> Option<Duration> {
    let after = match due_since(since(cron_job), timetable, now) {
        Err(NoTimes) => now,
        Ok(Due { last: Some(last), .. }) => last,
        Ok(Due { missed: 0, since, .. }) => since,
        Ok(_) => now,
    };
    timetable.next(after).map(|next| (next + MARGIN).since(now))
}

fn since(cron_job: &CronJob) -> Timestamp {
    cron_job.status.last_schedule_time.unwrap_or(cron_job.metadata.creation_timestamp)
}

/// Missed times cannot be enumerated: a wrong clock may have left millions. Their number is estimated from the
/// distance of the first two, and only the last ones are enumerated. As in Kubernetes, that finds nothing if the
/// first two are much closer to each other than most.
fn due_since(since: Timestamp, timetable: &Timetable, now: Timestamp) -> Result<Due, NoTimes> {
    let nothing = Due { since, last: None, missed: 0 };
    let first = timetable.next(since).ok_or(NoTimes)?;
    if now < first {
        return Ok(nothing);
    }
    let second = timetable.next(first).ok_or(NoTimes)?;
    if now < second {
        return Ok(Due { last: Some(first), ..nothing });
    }
    let distance = second.since(first).as_secs();
    let missed = now.since(first).as_secs().checked_div(distance).ok_or(NoTimes)? + 1;
    let reckoned = first + Duration::from_secs(missed.saturating_sub(2).saturating_mul(distance));
    let mut last = None;
    let mut next = timetable.next(reckoned).filter(|next| *next <= now);
    while let Some(time) = next {
        last = Some(time);
        next = timetable.next(time).filter(|next| *next <= now);
    }
    Ok(Due { since, last, missed })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::rfc3339;

    fn at(text: &str) -> Timestamp {
        coracle_runtime::informer::timestamp(text)
    }

    fn cron_job(spec: Value, last: Option<&str>) -> CronJob {
        let metadata = json!({"name": "c", "creationTimestamp": "2026-07-09T10:00:10Z"});
        serde_json::from_value(
            json!({"metadata": metadata, "spec": spec, "status": {"lastScheduleTime": last}}),
        )
        .unwrap()
    }

    fn decide(
        schedule: &str,
        spec: Value,
        last: Option<&str>,
        now: &str,
    ) -> (Option<String>, u64, Option<u64>) {
        let timetable = Timetable::read(schedule, None).unwrap();
        let cron_job = cron_job(spec, last);
        let due = due(&cron_job, &timetable, at(now)).unwrap();
        let look = next_look(&cron_job, &timetable, at(now)).map(|after| after.as_secs());
        (due.last.map(rfc3339), due.missed, look)
    }

    #[test]
    fn latest_missed_time_is_due() {
        let none = || json!({});
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(decide("0 * * * *", none(), None, "2026-07-09T10:30:00Z"), (None, 0, Some(1800)));
        assert_eq!(
            decide("0 * * * *", none(), None, "2026-07-09T11:00:00Z"),
            (some("2026-07-09T11:00:00Z"), 0, Some(3600))
        );
        let last = Some("2026-07-09T11:00:00Z");
        assert_eq!(decide("0 * * * *", none(), last, "2026-07-09T11:30:00Z"), (None, 0, Some(1800)));
        assert_eq!(
            decide("0 * * * *", none(), last, "2026-07-09T14:30:00Z"),
            (some("2026-07-09T14:00:00Z"), 3, Some(1800))
        );
        let (due, missed, _) =
            decide("* * * * *", none(), Some("2026-04-01T00:00:00Z"), "2026-07-09T14:30:30Z");
        assert_eq!(due, some("2026-07-09T14:30:00Z"));
        assert!(missed > MANY);
        let (due, missed, _) =
            decide("@every 90s", none(), Some("2026-07-09T14:00:00Z"), "2026-07-09T14:10:00Z");
        assert_eq!((due, missed), (some("2026-07-09T14:09:00Z"), 6));
    }

    #[test]
    fn time_before_the_starting_deadline_is_not_due() {
        let deadline = json!({"startingDeadlineSeconds": 600});
        let last = Some("2026-07-09T11:00:00Z");
        assert_eq!(decide("0 * * * *", deadline.clone(), last, "2026-07-09T14:30:00Z").0, None);
        assert_eq!(
            decide("0 * * * *", deadline, last, "2026-07-09T14:05:00Z").0.as_deref(),
            Some("2026-07-09T14:00:00Z")
        );
    }

    #[test]
    fn schedule_without_times_is_an_error() {
        let timetable = Timetable::read("59 23 31 2 *", None).unwrap();
        let cron_job = cron_job(json!({}), None);
        assert_eq!(due(&cron_job, &timetable, at("2026-07-09T14:30:00Z")), Err(NoTimes));
        assert_eq!(next_look(&cron_job, &timetable, at("2026-07-09T14:30:00Z")), None);
    }
}
