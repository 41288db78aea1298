//! Timestamps and durations.

use std::cmp::Ordering;
use std::fmt;

use coracle_meta::time::{self, Layout, Time, ZERO_UNIX_SECONDS, parse};

use crate::EvalError;

pub(crate) const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The last second of the year 9999.
const MAX_UNIX_SECONDS: i64 = 253_402_300_799;

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub i64);

impl Duration {
    #[expect(clippy::cast_precision_loss, reason = "like cel-go, where seconds are a double")]
    pub(crate) fn seconds(self) -> f64 {
        (self.0 / NANOS_PER_SECOND) as f64 + (self.0 % NANOS_PER_SECOND) as f64 / 1e9
    }
}

/// Formats the duration in seconds, as CEL does: `90.5s`.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.seconds())
    }
}

/// A timestamp. It preserves its UTC offset for formatting, and ignores it in comparisons.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    /// Seconds since the Unix epoch.
    pub seconds: i64,
    /// Nanoseconds after the second.
    pub nanos: u32,
    /// UTC offset in seconds, positive to the east.
    offset: i32,
}

impl Timestamp {
    /// Creates a timestamp between the years 1 and 9999.
    ///
    /// # Errors
    /// If it is out of range.
    pub fn new(seconds: i64, nanos: u32) -> Result<Self, EvalError> {
        Self::with_offset(seconds, nanos, 0)
    }

    fn with_offset(seconds: i64, nanos: u32, offset: i32) -> Result<Self, EvalError> {
        if (ZERO_UNIX_SECONDS..=MAX_UNIX_SECONDS).contains(&seconds) {
            Ok(Self { seconds, nanos, offset })
        } else {
            Err(EvalError::failed("timestamp overflow"))
        }
    }

    /// Parses RFC 3339.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, EvalError>> {
        let (seconds, nanos) = parse(text, Layout::Seconds).ok()?;
        Some(Self::with_offset(seconds, nanos, offset(text)))
    }

    pub(crate) fn is_zero(self) -> bool {
        self.seconds == ZERO_UNIX_SECONDS && self.nanos == 0
    }

    pub(crate) fn add(self, span: Duration) -> Result<Self, EvalError> {
        let nanos = i64::from(self.nanos) + span.0 % NANOS_PER_SECOND;
        let seconds = self.seconds + span.0 / NANOS_PER_SECOND + nanos.div_euclid(NANOS_PER_SECOND);
        let nanos = u32::try_from(nanos.rem_euclid(NANOS_PER_SECOND)).unwrap_or_default();
        Self::with_offset(seconds, nanos, self.offset)
    }

    pub(crate) fn since(self, other: Self) -> Result<Duration, EvalError> {
        let seconds = (self.seconds - other.seconds).checked_mul(NANOS_PER_SECOND);
        let nanos = i64::from(self.nanos) - i64::from(other.nanos);
        let span = seconds.and_then(|seconds| seconds.checked_add(nanos));
        span.map(Duration).ok_or_else(|| EvalError::failed("duration overflow"))
    }
}

/// Parses the UTC offset at the end of an RFC 3339 time.
fn offset(text: &str) -> i32 {
    let Some(tail) = text.len().checked_sub(6).and_then(|start| text.get(start..)) else { return 0 };
    let sign = match tail.as_bytes()[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return 0,
    };
    let part =
        |range| tail.get(range).and_then(|digits: &str| digits.parse::<i32>().ok()).unwrap_or_default();
    sign * (part(1..3) * 3600 + part(4..6) * 60)
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

/// Formats RFC 3339 with as many fractional digits as necessary.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = Time(self.seconds + i64::from(self.offset)).to_string();
        f.write_str(local.trim_end_matches('Z'))?;
        if self.nanos > 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let sign = if self.offset < 0 { '-' } else { '+' };
        let minutes = self.offset.abs() / 60;
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Parses a duration in Go's format, such as `1h30m` or `-1.5s`.
pub(crate) fn parse_go_duration(text: &str) -> Option<Duration> {
    time::parse_go_duration(text).ok().map(Duration)
}

/// Parses a duration of OpenAPI's format `duration`: in Go's format, or with unit names such as `2
/// days`.
pub(crate) fn parse_openapi_duration(text: &str) -> Option<Duration> {
    /// The names of each unit; the last one may be a prefix of the word.
    const UNITS: &[(&[&str], i64)] = &[
        (&["ns", "nano"], 1),
        (&["us", "\u{b5}s", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], NANOS_PER_SECOND),
        (&["m", "min"], 60 * NANOS_PER_SECOND),
        (&["h", "hr", "hour"], 3600 * NANOS_PER_SECOND),
        (&["d", "day"], 24 * 3600 * NANOS_PER_SECOND),
        (&["w", "wk", "week"], 7 * 24 * 3600 * NANOS_PER_SECOND),
    ];
    if let Some(plain) = parse_go_duration(text) {
        return Some(plain);
    }
    let mut total = None;
    let mut rest = text;
    while let Some(start) = rest.find(|found: char| found.is_ascii_digit()) {
        rest = &rest[start..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let end = after.find(|found: char| !found.is_ascii_alphabetic() && found != '\u{b5}');
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let unit = unit.to_lowercase();
        rest = after;
        let unit_entry = UNITS.iter().find(|(names, _)| {
            names.contains(&&*unit) || names.last().is_some_and(|last| unit.starts_with(last))
        });
        if let Some((_, nanos)) = unit_entry {
            let span = number.parse::<i64>().ok()?.wrapping_mul(*nanos);
            total = Some(total.unwrap_or(0_i64).wrapping_add(span));
        }
    }
    total.map(Duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_with_unit_names_is_parsed() {
        let seconds = |text: &str| parse_openapi_duration(text).map(|span| span.0 / NANOS_PER_SECOND);
        for (text, expected) in [
            ("1h30m", Some(5400)),
            ("2 days", Some(172_800)),
            ("1w", Some(604_800)),
            ("3 weeks 2 hours", Some(1_821_600)),
            ("5 seconds", Some(5)),
            ("-1s", Some(-1)),
            ("", None),
            ("soon", None),
            ("5 apples", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
