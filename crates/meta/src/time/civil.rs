//! The proleptic Gregorian calendar: conversion between dates and days since the Unix epoch.

pub(super) const SECONDS_PER_DAY: i64 = 86_400;

/// Days in 400 years, the period of the calendar.
const DAYS_PER_ERA: i64 = 146_097;

/// Days from March 1 of year zero, the origin of the computation, to the Unix epoch.
const EPOCH_DAY: i64 = 719_468;

/// Converts a date to days since the Unix epoch. Internally years start on March 1, so that the
/// leap day comes last.
pub(super) fn to_days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - EPOCH_DAY
}

/// Converts days since the Unix epoch to year, month and day.
pub(super) fn from_days(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAY;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    // Remove leap days before dividing by the length of a common year.
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Returns the number of days in a month.
pub(super) fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_round_trip() {
        let (mut year, mut month, mut day) = (-401, 1, 1);
        let mut days = to_days(year, month, day);
        while year < 2500 {
            assert_eq!(to_days(year, month, day), days);
            assert_eq!(from_days(days), (year, month, day));
            days += 1;
            day += 1;
            if day > days_in(year, month) {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
