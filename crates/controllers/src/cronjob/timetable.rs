//! Evaluates a schedule in its time zone.
//!
//! A wall clock time that occurs twice, because the clock is set back, is due twice; one that does not occur, because
//! the clock is set forward, is not due that day. Both are as in Kubernetes.

use coracle_base::Timestamp;
use coracle_meta::cron::{self, Calendar, Schedule};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp as Instant, ToSpan, Zoned};

/// A schedule without a time in this many years never has one, as in Kubernetes: February 31, for example.
const MAX_YEARS: i16 = 5;

const MINUTE_MS: u64 = 60_000;

/// A schedule and its time zone.
#[derive(Clone, Debug)]
pub(super) struct Timetable {
    schedule: Schedule,
    zone: TimeZone,
}

/// Why a schedule is unreadable. Validation rejects both cases, unless another version of the server accepted them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScheduleError {
    Zone(String),
    Schedule(String),
}

impl Timetable {
    /// Parses a schedule. A zone within the schedule takes precedence over `zone`.
    pub(super) fn read(schedule: &str, zone: Option<&str>) -> Result<Self, ScheduleError> {
        let outer = zone.map(|name| zone_of(name).map_err(ScheduleError::Zone)).transpose()?;
        let (inner, schedule) = cron::split_zone(schedule).map_err(ScheduleError::Schedule)?;
        let bad =
            |name: &str, error| ScheduleError::Schedule(format!("provided bad location {name}: {error}"));
        let inner = inner.map(|name| zone_of(name).map_err(|error| bad(name, error))).transpose()?;
        let schedule = Schedule::parse(schedule).map_err(ScheduleError::Schedule)?;
        Ok(Self { schedule, zone: inner.or(outer).unwrap_or(TimeZone::UTC) })
    }

    /// The first time after `after`; `None` if it is too far away to be sensible.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.schedule {
            Schedule::Every { seconds } => {
                let whole = after.as_millis() / 1000;
                Some(Timestamp::from_millis(whole.saturating_add(*seconds).saturating_mul(1000)))
            }
            Schedule::At(calendar) => {
                let first = (after.as_millis() / MINUTE_MS + 1) * MINUTE_MS;
                self.next_in(calendar, Timestamp::from_millis(first))
            }
        }
    }

    /// The first whole minute from `from` on that matches the calendar.
    fn next_in(&self, calendar: &Calendar, from: Timestamp) -> Option<Timestamp> {
        let mut at = self.zoned(from)?;
        let last_year = at.year() + MAX_YEARS;
        while at.year() <= last_year {
            at = if !calendar.has_month(at.month().unsigned_abs()) {
                at.first_of_month().ok()?.checked_add(1.month()).ok()?.start_of_day().ok()?
            } else if !calendar.has_day(at.day().unsigned_abs(), weekday(&at)) {
                at.tomorrow().ok()?.start_of_day().ok()?
            } else if !calendar.has_hour(at.hour().unsigned_abs()) {
                later(&at, 60 - i64::from(at.minute()))?
            } else if !calendar.has_minute(at.minute().unsigned_abs()) {
                later(&at, 1)?
            } else {
                let millis = u64::try_from(at.timestamp().as_millisecond()).ok()?;
                return Some(Timestamp::from_millis(millis));
            };
        }
        None
    }

    /// Formats a time for an annotation, with its UTC offset.
    pub(super) fn rfc3339(&self, at: Timestamp, zone: Option<&str>) -> String {
        let zone = zone.map_or(Ok(TimeZone::UTC), zone_of).unwrap_or(TimeZone::UTC);
        let Some(at) = instant(at) else { return String::new() };
        let at = at.to_zoned(zone);
        let text = at.strftime("%Y-%m-%dT%H:%M:%S").to_string();
        if at.offset().is_zero() { format!("{text}Z") } else { format!("{text}{}", at.strftime("%:z")) }
    }

    fn zoned(&self, at: Timestamp) -> Option<Zoned> {
        instant(at).map(|at| at.to_zoned(self.zone.clone()))
    }
}

/// Formats a time as in RFC 1123, in UTC.
pub(super) fn rfc1123(at: Timestamp) -> String {
    instant(at).map(|at| at.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()).unwrap_or_default()
}

fn instant(at: Timestamp) -> Option<Instant> {
    Instant::from_millisecond(i64::try_from(at.as_millis()).ok()?).ok()
}

fn weekday(at: &Zoned) -> u8 {
    at.weekday().to_sunday_zero_offset().unsigned_abs()
}

fn later(at: &Zoned, minutes: i64) -> Option<Zoned> {
    at.checked_add(SignedDuration::from_mins(minutes)).ok()
}

/// Time zones are compiled in, so that the machine's zone data does not change when a job is due.
fn zone_of(name: &str) -> Result<TimeZone, String> {
    if name.is_empty() {
        return Ok(TimeZone::UTC);
    }
    TimeZoneDatabase::bundled().get(name).map_err(|_| format!("unknown time zone {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        coracle_runtime::informer::timestamp(text)
    }

    /// The next times after one, as UTC.
    fn next(schedule: &str, zone: Option<&str>, after: &str, count: usize) -> Vec<String> {
        let timetable = Timetable::read(schedule, zone).unwrap();
        let mut times = vec![at(after)];
        while times.len() <= count {
            times.push(timetable.next(*times.last().unwrap()).unwrap());
        }
        times[1..].iter().map(|time| timetable.rfc3339(*time, None)).collect()
    }

    #[test]
    fn schedule_is_due_in_its_time_zone() {
        for (schedule, zone, after, expected) in [
            ("*/15 * * * *", None, "2026-07-09T14:45:00Z", "2026-07-09T15:00:00Z"),
            ("*/15 * * * *", None, "2026-07-09T14:59:59Z", "2026-07-09T15:00:00Z"),
            ("20-35/15 * * * *", None, "2026-07-09T14:35:01Z", "2026-07-09T15:20:00Z"),
            ("0 0 * * *", None, "2026-12-31T23:59:00Z", "2027-01-01T00:00:00Z"),
            ("0 0 29 2 *", None, "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 * feb mon", None, "2026-07-01T00:00:00Z", "2027-02-01T00:00:00Z"),
            ("0 12 13 * fri", None, "2026-07-09T00:00:00Z", "2026-07-10T12:00:00Z"),
            ("0 9 * * *", Some("Asia/Tokyo"), "2026-07-09T00:00:00Z", "2026-07-10T00:00:00Z"),
            ("30 9 * * *", Some("Asia/Kolkata"), "2026-07-09T03:59:00Z", "2026-07-09T04:00:00Z"),
            ("TZ=America/New_York 0 9 * * *", Some("UTC"), "2026-07-09T00:00:00Z", "2026-07-09T13:00:00Z"),
            ("@hourly", None, "2026-07-09T14:45:00Z", "2026-07-09T15:00:00Z"),
            ("@every 90s", None, "2026-07-09T14:45:10Z", "2026-07-09T14:46:40Z"),
        ] {
            assert_eq!(next(schedule, zone, after, 1), [expected], "{schedule}");
        }
    }

    #[test]
    fn daylight_saving_repeats_and_skips_times() {
        let zone = Some("America/New_York");
        // The clock jumps from two to three.
        let skipped = next("30 2 * * *", zone, "2026-03-07T12:00:00Z", 1);
        assert_eq!(skipped, ["2026-03-09T06:30:00Z"]);
        // The clock jumps from two to one.
        let repeated = next("30 1 * * *", zone, "2026-11-01T00:00:00Z", 3);
        assert_eq!(repeated, ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"]);
        // The clock jumps from midnight to one, where the day begins.
        let no_midnight = next("0 5 6 9 *", Some("America/Santiago"), "2026-08-01T00:00:00Z", 1);
        assert_eq!(no_midnight, ["2026-09-06T08:00:00Z"]);
    }

    #[test]
    fn schedule_without_times_has_no_next_time() {
        let never = Timetable::read("59 23 31 2 *", None).unwrap();
        assert_eq!(never.next(at("2026-01-01T00:00:00Z")), None);
    }

    #[test]
    fn timestamps_format_as_in_kubernetes() {
        let timetable = Timetable::read("* * * * *", None).unwrap();
        let time = at("2026-07-09T14:45:00Z");
        assert_eq!(timetable.rfc3339(time, None), "2026-07-09T14:45:00Z");
        assert_eq!(timetable.rfc3339(time, Some("Europe/Berlin")), "2026-07-09T16:45:00+02:00");
        assert_eq!(timetable.rfc3339(time, Some("Europe/London")), "2026-07-09T15:45:00+01:00");
        assert_eq!(rfc1123(time), "Thu, 09 Jul 2026 14:45:00 +0000");
    }

    #[test]
    fn unreadable_schedule_returns_the_reason() {
        let read = |schedule: &str, zone| Timetable::read(schedule, zone).unwrap_err();
        assert_eq!(read("* * * * *", Some("Mars")), ScheduleError::Zone("unknown time zone Mars".into()));
        let error = "provided bad location Mars: unknown time zone Mars".to_owned();
        assert_eq!(read("TZ=Mars * * * * *", None), ScheduleError::Schedule(error));
        let error = "expected exactly 5 fields, found 1: [often]".to_owned();
        assert_eq!(read("often", None), ScheduleError::Schedule(error));
    }
}
