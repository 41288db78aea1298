//! Points in time as fields hold them: the arithmetic is [`coracle_meta::time`]'s, here is only
//! what the codecs need besides.

use coracle_meta::time::{Layout, MicroTime, Time, ZERO_UNIX_SECONDS, parse};

/// Seconds of the end of the year 9999, the last that RFC 3339 can write.
const LAST_SECONDS: i64 = 253_402_300_799;

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timestamp {
    pub(super) seconds: i64,
    pub(super) nanos: u32,
}

/// How fine the time of a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    Seconds,
    Micros,
}

impl Timestamp {
    /// Whether it stands for no time at all.
    pub(super) fn is_zero(self) -> bool {
        self.seconds == ZERO_UNIX_SECONDS && self.nanos == 0
    }

    /// Whether it can be written.
    pub(super) fn is_writable(self) -> bool {
        (ZERO_UNIX_SECONDS..=LAST_SECONDS).contains(&self.seconds) && self.nanos < 1_000_000_000
    }

    /// Reads RFC 3339 with any offset. Seconds may have any number of digits after the point,
    /// but microseconds are always six.
    pub(super) fn parse(text: &str, precision: Precision) -> Result<Self, String> {
        let layout = match precision {
            Precision::Seconds => Layout::Seconds,
            Precision::Micros => Layout::Micros,
        };
        let (seconds, nanos) = parse(text, layout).map_err(|error| error.to_string())?;
        Ok(Self { seconds, nanos })
    }

    /// Writes RFC 3339 in UTC. What is finer than the precision is cut off.
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
    fn times_become_utc() {
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
    fn mistakes_are_named() {
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
