//! Whether the schedule of a CronJob can be read. When it is due is up to the controller.

use coracle_meta::cron::{self, Schedule};

use super::time_zone;

/// Whether a schedule can be read.
///
/// # Errors
/// A message for the client, when it cannot.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let (zone, schedule) = cron::split_zone(schedule)?;
    // A zone in a schedule is refused elsewhere, but not for being unknown.
    if let Some(zone) = zone.filter(|zone| !zone.is_empty() && !time_zone::is_known(zone)) {
        return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
    }
    Schedule::parse(schedule).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_and_their_zones_are_checked() {
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
