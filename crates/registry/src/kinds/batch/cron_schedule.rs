//! Validation of schedules. The controller computes when they are due.

use coracle_meta::cron::{self, Schedule};

use super::time_zone;

/// Validates a schedule.
///
/// # Errors
/// A message for the client.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let (zone, schedule) = cron::split_zone(schedule)?;
    // A time zone in a schedule is rejected elsewhere, unless it is unknown.
    if let Some(zone) = zone.filter(|zone| !zone.is_empty() && !time_zone::is_known(zone)) {
        return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
    }
    Schedule::parse(schedule).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_and_time_zones_are_validated() {
        for schedule in ["*/5 0-23/2 1,15 jan-MAR ?", "  0 0 * * 6 ", "@every 1h30.5m", "TZ=UTC * * * * *"] {
            assert_eq!(check(schedule), Ok(()), "{schedule}");
        }
        for (schedule, expected) in [
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("TZ=x * * * * *", "provided bad location x: unknown time zone x"),
            ("TZ=UTC", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
        ] {
            assert_eq!(check(schedule), Err(expected.to_owned()), "{schedule}");
        }
    }
}
