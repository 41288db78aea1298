//! Points and spans of time.

use std::cmp::Ordering;
use std::fmt;

use coracle_meta::time::{self, Layout, Time, ZERO_UNIX_SECONDS, parse};

use crate::EvalError;

pub(crate) const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The last second of year 9999.
const MAX_UNIX_SECONDS: i64 = 253_402_300_799;

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub i64);

impl Duration {
    #[expect(clippy::cast_precision_loss, reason = "so does upstream: seconds are a double there")]
    pub(crate) fn seconds(self) -> f64 {
        (self.0 / NANOS_PER_SECOND) as f64 + (self.0 % NANOS_PER_SECOND) as f64 / 1e9
    }
}

/// In seconds, as CEL writes it: `90.5s`.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.seconds())
    }
}

/// A point in time. It remembers the offset it was written with and compares without it.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    /// Since the Unix epoch.
    pub seconds: i64,
    /// Beyond the seconds.
    pub nanos: u32,
    /// East of UTC, in seconds.
    offset: i32,
}

impl Timestamp {
    /// A point between the first year and the year 9999.
    ///
    /// # Errors
    /// If it lies outside.
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

    /// Reads RFC 3339.
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

/// The offset that ends a time in RFC 3339.
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

/// RFC 3339 with as many digits of a second as there are.
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

/// A span as Go writes it, such as `1h30m` or `-1.5s`.
pub(crate) fn parse_go_duration(text: &str) -> Option<Duration> {
    time::parse_go_duration(text).ok().map(Duration)
}

/// A span as OpenAPI's format `duration` has it: as Go writes it, or in words such as `2 days`.
pub(crate) fn parse_openapi_duration(text: &str) -> Option<Duration> {
    /// Each unit by its names; with the last of them others may only begin.
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
        let known = UNITS.iter().find(|(names, _)| {
            names.contains(&&*unit) || names.last().is_some_and(|last| unit.starts_with(last))
        });
        if let Some((_, nanos)) = known {
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
    fn durations_in_words() {
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
