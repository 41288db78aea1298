//! Timestamps of managedFields entries, which determine their order.

/// Converts an RFC 3339 time, with any zone and fraction, to the canonical form
/// `2006-01-02T15:04:05Z`. `None` if it is malformed.
pub(super) fn canonical(text: &str) -> Option<String> {
    if is_canonical(text) {
        return Some(text.to_owned());
    }
    Some(from_unix(to_unix(text)?))
}

fn is_canonical(text: &str) -> bool {
    text.len() == 20 && text.ends_with('Z') && to_unix(text).is_some()
}

/// Parses an RFC 3339 time to Unix seconds.
pub(super) fn to_unix(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if bytes.len() < 20 || separators.iter().any(|(at, separator)| bytes[*at] != *separator) {
        return None;
    }
    let part = |from: usize, to: usize| digits(&bytes[from..to]);
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let offset = zone(&bytes[19..])?;
    Some(days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset)
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes
        .iter()
        .try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
}

/// Parses an optional fraction, which is ignored, and the zone offset in seconds.
fn zone(bytes: &[u8]) -> Option<i64> {
    let zone = match bytes {
        [b'.', fraction @ ..] => {
            let count = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if count == 0 {
                return None;
            }
            &fraction[count..]
        }
        other => other,
    };
    match zone {
        b"Z" => Some(0),
        [sign @ (b'+' | b'-'), hours @ .., b':', a, b] if hours.len() == 2 => {
            let (hours, minutes) = (digits(hours)?, digits(&[*a, *b])?);
            let offset = hours * 3_600 + minutes * 60;
            (hours < 24 && minutes < 60).then_some(if *sign == b'-' { -offset } else { offset })
        }
        _ => None,
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days since 1970-01-01. Counts in years that begin in March, so that the leap day
/// comes last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn from_unix(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // A lower bound of the year, for negative counts too; the loop below advances it.
    let mut year = 1970 + days.div_euclid(if days < 0 { 365 } else { 366 });
    while days_since_1970(year + 1, 1, 1) <= days {
        year += 1;
    }
    let mut day = days - days_since_1970(year, 1, 1);
    let mut month = 1;
    while day >= days_in(year, month) {
        day -= days_in(year, month);
        month += 1;
    }
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_times_are_converted_to_canonical_form() {
        for (text, seconds, written) in [
            ("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"),
            ("2024-02-29T12:34:56Z", 1_709_210_096, "2024-02-29T12:34:56Z"),
            ("2024-02-29T12:34:56.789Z", 1_709_210_096, "2024-02-29T12:34:56Z"),
            ("2024-03-01T01:34:56+13:00", 1_709_210_096, "2024-02-29T12:34:56Z"),
            ("0001-01-01T00:00:00Z", -62_135_596_800, "0001-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59Z", 253_402_300_799, "9999-12-31T23:59:59Z"),
            ("1969-12-31T23:59:59-00:30", 1_799, "1970-01-01T00:29:59Z"),
        ] {
            assert_eq!(to_unix(text), Some(seconds), "{text}");
            assert_eq!(canonical(text).as_deref(), Some(written), "{text}");
        }
    }

    #[test]
    fn malformed_time_is_rejected() {
        for text in [
            "",
            "now",
            "2024-02-30T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-01-01 00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00+1:00",
            "2024-01-01T00:00:00+25:00",
            "2024-01-01T00:00:0éZ",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_round_trips() {
        for day in (-40_000..60_000).step_by(7) {
            let text = from_unix(day * 86_400 + 86_399);
            assert_eq!(to_unix(&text), Some(day * 86_400 + 86_399), "{text}");
        }
    }
}
