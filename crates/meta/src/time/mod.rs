//! Timestamps of objects: RFC 3339 in UTC, with seconds or microseconds.
//!
//! Arithmetic only: the caller provides the current time.

mod civil;
mod go_duration;
mod parse;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use go_duration::{ParseDurationError, go_duration, parse_go_duration, parse_go_wait};
pub use parse::{Layout, ParseTimeError, parse};

/// Go's zero time, the first second of year one, which is serialized as `null`.
pub const ZERO_UNIX_SECONDS: i64 = -62_135_596_800;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// A `Time` of meta/v1: seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(pub i64);

/// A `MicroTime` of meta/v1: microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MicroTime(pub i64);

impl Time {
    /// Returns true for Go's zero time.
    pub fn is_zero(self) -> bool {
        self.0 == ZERO_UNIX_SECONDS
    }
}

impl MicroTime {
    /// Truncates to seconds.
    pub fn to_time(self) -> Time {
        Time(self.0.div_euclid(MICROS_PER_SECOND))
    }
}

impl From<Time> for MicroTime {
    fn from(time: Time) -> Self {
        Self(time.0.saturating_mul(MICROS_PER_SECOND))
    }
}

impl FromStr for Time {
    type Err = ParseTimeError;

    /// Parses RFC 3339 with any offset; discards fractions of a second.
    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        Ok(Self(parse(text, Layout::Seconds)?.0))
    }
}

impl FromStr for MicroTime {
    type Err = ParseTimeError;

    /// Parses RFC 3339 with any offset and exactly six fractional digits.
    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        let (seconds, nanos) = parse(text, Layout::Micros)?;
        Ok(Self(seconds * MICROS_PER_SECOND + i64::from(nanos / 1000)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_date_time(f, self.0)?;
        f.write_str("Z")
    }
}

impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_date_time(f, self.to_time().0)?;
        write!(f, ".{:06}Z", self.0.rem_euclid(MICROS_PER_SECOND))
    }
}

fn write_date_time(f: &mut fmt::Formatter<'_>, unix_seconds: i64) -> fmt::Result {
    let (year, month, day) = civil::from_days(unix_seconds.div_euclid(civil::SECONDS_PER_DAY));
    let second = unix_seconds.rem_euclid(civil::SECONDS_PER_DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let sign = if year < 0 { "-" } else { "" };
    let year = year.unsigned_abs();
    write!(f, "{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_zero() { serializer.serialize_none() } else { serializer.collect_str(self) }
    }
}

impl Serialize for MicroTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let zero = self.0 == ZERO_UNIX_SECONDS * MICROS_PER_SECOND;
        if zero { serializer.serialize_none() } else { serializer.collect_str(self) }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<String>::deserialize(deserializer)? {
            Some(text) => text.parse().map_err(serde::de::Error::custom),
            None => Ok(Self(ZERO_UNIX_SECONDS)),
        }
    }
}

impl<'de> Deserialize<'de> for MicroTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<String>::deserialize(deserializer)? {
            Some(text) => text.parse().map_err(serde::de::Error::custom),
            None => Ok(Time(ZERO_UNIX_SECONDS).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_rfc_3339() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
            (ZERO_UNIX_SECONDS, "0001-01-01T00:00:00Z"),
        ] {
            assert_eq!(Time(seconds).to_string(), text);
            assert_eq!(text.parse(), Ok(Time(seconds)));
        }
        assert_eq!(MicroTime(-1).to_string(), "1969-12-31T23:59:59.999999Z");
        assert_eq!("1969-12-31T23:59:59.999999Z".parse(), Ok(MicroTime(-1)));
        assert_eq!(MicroTime(-1).to_time(), Time(-1));
    }

    #[test]
    fn time_round_trips() {
        for seed in 0..20_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let seconds = rng.i64(-62_167_219_200..253_402_300_800);
            assert_eq!(Time(seconds).to_string().parse(), Ok(Time(seconds)), "seed {seed}");
            let micros = MicroTime(seconds * MICROS_PER_SECOND + rng.i64(0..MICROS_PER_SECOND));
            assert_eq!(micros.to_string().parse(), Ok(micros), "seed {seed}");
        }
    }

    #[test]
    fn zero_time_serializes_as_null() {
        assert_eq!(serde_json::to_string(&Time(ZERO_UNIX_SECONDS)).unwrap(), "null");
        assert!(serde_json::from_str::<Time>("null").unwrap().is_zero());
        assert_eq!(serde_json::to_string(&MicroTime(1)).unwrap(), "\"1970-01-01T00:00:00.000001Z\"");
        assert_eq!(serde_json::from_str::<MicroTime>("null").unwrap().to_time(), Time(ZERO_UNIX_SECONDS));
    }
}
