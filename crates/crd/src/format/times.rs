//! Formats of dates, times and durations.

use std::str::Chars;

use coracle_meta::time::parse_go_duration;

/// Matches `2006-01-02`.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *bytes else { return false };
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0_u32, |sum, digit| Some(sum * 10 + char::from(*digit).to_digit(10)?))
    };
    let (Some(year), Some(month), Some(day)) =
        (number(&[y1, y2, y3, y4]), number(&[m1, m2]), number(&[d1, d2]))
    else {
        return false;
    };
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// Matches a date, and a time with zone. Like kube-apiserver, ignores everything after a second
/// `t`.
pub(super) fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else { return false };
    let [h1, h2, b':', m1, m2, b':', s1, s2] = *clock.as_bytes() else { return false };
    let in_range = |tens: u8, ones: u8, limit: [u8; 2]| {
        tens.is_ascii_digit() && ones.is_ascii_digit() && [tens, ones] <= limit
    };
    in_range(h1, h2, *b"23")
        && in_range(m1, m2, *b"59")
        && in_range(s1, s2, *b"59")
        && (is_zone(rest) || fraction(rest).is_some_and(is_zone))
}

/// Skips a fraction of a second, which kube-apiserver lets begin with any character.
fn fraction(text: &str) -> Option<&str> {
    let mut chars: Chars<'_> = text.chars();
    chars.next().filter(|c| *c != '\n')?;
    let digits = chars.as_str();
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < digits.len()).then_some(rest)
}

fn is_zone(text: &str) -> bool {
    match *text.as_bytes() {
        [b'z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Matches a duration in Go's format, or one with unit names anywhere in the text.
pub(super) fn is_duration(text: &str) -> bool {
    parse_go_duration(text).is_ok() || is_worded_duration(text)
}

/// Returns true if the text contains a number with a unit.
fn is_worded_duration(text: &str) -> bool {
    /// Units and their abbreviations; the last one also matches as a prefix.
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    let (mut rest, mut found) = (text, false);
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let from = &rest[start..];
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        let spaced = after.trim_start_matches(['\t', '\n', '\x0c', '\r', ' ']);
        let end = spaced.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(spaced.len());
        let (unit, after_unit) = spaced.split_at(end);
        if unit.is_empty() {
            rest = after;
            continue;
        }
        if number.parse::<i64>().is_err() {
            return false;
        }
        let unit = unit.to_lowercase();
        found |= UNITS
            .iter()
            .any(|names| names.contains(&&*unit) || names.last().is_some_and(|last| unit.starts_with(last)));
        rest = after_unit;
    }
    found
}
