//! Timestamps as fields contain them. The arithmetic is in [`coracle_meta::time`]; this module adds what the codecs
//! need.

use coracle_meta::time::{Layout, MicroTime, Time, ZERO_UNIX_SECONDS, parse};

/// Unix time of the end of the year 9999, the last that RFC 3339 can express.
const LAST_SECONDS: i64 = 253_402_300_799;

/// A timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timestamp {
    pub(super) seconds: i64,
    pub(super) nanos: u32,
}

/// The precision of a time field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    Seconds,
    Micros,
}

impl Timestamp {
    /// Whether it is Go's zero time, which stands for no time.
    pub(super) fn is_zero(self) -> bool {
        self.seconds == ZERO_UNIX_SECONDS && self.nanos == 0
    }

    /// Whether RFC 3339 can express it.
    pub(super) fn is_writable(self) -> bool {
        (ZERO_UNIX_SECONDS..=LAST_SECONDS).contains(&self.seconds) && self.nanos < 1_000_000_000
    }

    /// Parses RFC 3339 with any offset. Fractions of seconds may have any number of digits; with microseconds they
    /// have exactly six.
    pub(super) fn parse(text: &str, precision: Precision) -> Result<Self, String> {
        let layout = match precision {
            Precision::Seconds => Layout::Seconds,
            Precision::Micros => Layout::Micros,
        };
        let (seconds, nanos) = parse(text, layout).map_err(|error| error.to_string())?;
        Ok(Self { seconds, nanos })
    }

    /// Formats as RFC 3339 in UTC, truncated to the precision.
    pub(super) fn format(self, precision: Precision) -> String {
        match precision {
            Precision::Seconds => Time(self.seconds).to_string(),
            Precision::Micros => {
                MicroTime(self.seconds.saturating_mul(1_000_000) + i64::from(self.nanos / 1000)).to_string()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_converted_to_utc() {
        for (text, seconds, micros) in [
            ("2020-02-29T23:59:59Z", "2020-02-29T23:59:59Z", "2020-02-29T23:59:59.000000Z"),
            ("2020-01-01T00:30:00.123456789+01:00", "2019-12-31T23:30:00Z", "2019-12-31T23:30:00.123456Z"),
            ("1969-12-31T23:59:59.5-00:00", "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.500000Z"),
        ] {
            let time = Timestamp::parse(text, Precision::Seconds).unwrap();
            assert_eq!(time.format(Precision::Seconds), seconds);
            assert_eq!(time.format(Precision::Micros), micros);
        }
        let micros = Timestamp::parse("2020-01-01T00:00:00.123456Z", Precision::Micros).unwrap();
        assert_eq!(micros.format(Precision::Micros), "2020-01-01T00:00:00.123456Z");
        assert!(Timestamp::parse("0001-01-01T00:00:00Z", Precision::Seconds).unwrap().is_zero());
    }

    #[test]
    fn malformed_times_are_rejected_with_the_errors_of_go() {
        for (text, message) in [
            (
                "today",
                r#"parsing time "today" as "2006-01-02T15:04:05Z07:00": cannot parse "today" as "2006""#,
            ),
            (
                "2020-01-01",
                r#"parsing time "2020-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
            ),
            ("2021-02-29T00:00:00Z", r#"parsing time "2021-02-29T00:00:00Z": day out of range"#),
            ("2021-02-01T00:00:00Zx", r#"parsing time "2021-02-01T00:00:00Zx": extra text: "x""#),
        ] {
            assert_eq!(Timestamp::parse(text, Precision::Seconds).unwrap_err(), message);
        }
        let message = r#"parsing time "2020-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#;
        assert_eq!(Timestamp::parse("2020-01-01T00:00:00Z", Precision::Micros).unwrap_err(), message);
    }
}
