//! Go's `time.Duration` format, used in objects and in messages that must be identical to
//! kube-apiserver's.

use std::time::Duration;

use crate::field::quoted;

/// Units, in nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Significant digits of a fraction: further digits are less than a nanosecond in any unit.
const MAX_FRACTION_DIGITS: usize = 18;

/// Go's errors for a malformed duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// The format is wrong, or the duration overflows 64 bits of nanoseconds.
    #[error("time: invalid duration {}", quoted(.0))]
    Invalid(String),
    /// A number has no unit.
    #[error("time: missing unit in duration {}", quoted(.0))]
    MissingUnit(String),
    /// A unit is unknown.
    #[error("time: unknown unit {} in duration {}", quoted(.unit), quoted(.text))]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// Parses a duration such as `1h30m`, `-1.5s` or `0`. Returns nanoseconds.
///
/// # Errors
/// If the text is malformed.
pub fn parse_go_duration(text: &str) -> Result<i64, ParseDurationError> {
    let invalid = || ParseDurationError::Invalid(text.to_owned());
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    let mut total = 0_i128;
    loop {
        let (nanoseconds, after) = part(rest, text)?;
        total += nanoseconds;
        if total > i128::from(i64::MAX) + 1 {
            return Err(invalid());
        }
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    i64::try_from(if text.starts_with('-') { -total } else { total }).map_err(|_| invalid())
}

/// Parses a non-negative duration. `None` if the text is malformed.
pub fn parse_go_wait(text: &str) -> Option<Duration> {
    let nanoseconds = parse_go_duration(text).ok()?;
    u64::try_from(nanoseconds).ok().map(Duration::from_nanos)
}

/// Parses the first number with its unit. Returns nanoseconds and the rest.
fn part<'a>(rest: &'a str, text: &str) -> Result<(i128, &'a str), ParseDurationError> {
    let invalid = || ParseDurationError::Invalid(text.to_owned());
    let (whole, after) = split_digits(rest);
    let (fraction, after) = after.strip_prefix('.').map_or(("", after), split_digits);
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
    let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
    let (unit, after) = after.split_at(end);
    let Some((_, nanoseconds)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let text = text.to_owned();
        return Err(match unit {
            "" => ParseDurationError::MissingUnit(text),
            unit => ParseDurationError::UnknownUnit { unit: unit.to_owned(), text },
        });
    };
    let nanoseconds = i128::from(*nanoseconds);
    Ok((i128::from(whole) * nanoseconds + fraction_of(fraction, nanoseconds), after))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Returns a decimal fraction of a unit.
fn fraction_of(digits: &str, unit: i128) -> i128 {
    let value = |(sum, scale): (i128, i128), digit: u8| (sum * 10 + i128::from(digit - b'0'), scale * 10);
    let (sum, scale) = digits.bytes().take(MAX_FRACTION_DIGITS).fold((0, 1), value);
    sum * unit / scale
}

/// Formats a duration as `1h2m3.5s`, or below one second as `1.5ms`.
pub fn go_duration(duration: Duration) -> String {
    let nanos = duration.subsec_nanos();
    if duration.as_secs() == 0 {
        return match nanos {
            0 => "0s".to_owned(),
            1..1_000 => format!("{nanos}ns"),
            1_000..1_000_000 => format!("{}µs", decimal(nanos.into(), 3)),
            _ => format!("{}ms", decimal(nanos.into(), 6)),
        };
    }
    let (minutes, seconds) = (duration.as_secs() / 60, duration.as_secs() % 60);
    let seconds = decimal(u128::from(seconds) * 1_000_000_000 + u128::from(nanos), 9);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// Formats a fixed-point number with `digits` fractional digits, without trailing zeros.
fn decimal(number: u128, digits: usize) -> String {
    let unit = 10_u128.pow(u32::try_from(digits).unwrap_or(0));
    let fraction = format!("{:0digits$}", number % unit);
    match fraction.trim_end_matches('0') {
        "" => (number / unit).to_string(),
        fraction => format!("{}.{fraction}", number / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_as_in_go() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("250ms", 250_000_000),
            ("1m30s", 90_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("-1.5s", -1_500_000_000),
            ("+.5us", 500),
            ("1.µs", 1_000),
            ("0.3333333333333333333h", 1_199_999_999_999),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
        ] {
            assert_eq!(parse_go_duration(text), Ok(nanos), "{text}");
        }
        for (text, why) in [
            ("", r#"time: invalid duration """#),
            ("-", r#"time: invalid duration "-""#),
            ("soon", r#"time: invalid duration "soon""#),
            ("1h ", r#"time: unknown unit "h " in duration "1h ""#),
            ("1.5.5h", r#"time: missing unit in duration "1.5.5h""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("5d", r#"time: unknown unit "d" in duration "5d""#),
            ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
            ("99999999999999999999h", r#"time: invalid duration "99999999999999999999h""#),
        ] {
            assert_eq!(parse_go_duration(text).unwrap_err().to_string(), why);
        }
        assert_eq!(parse_go_wait("1m0.5s"), Some(Duration::from_millis(60_500)));
        assert_eq!(parse_go_wait("-1s"), None);
    }

    #[test]
    fn durations_are_formatted_as_in_go() {
        for (nanos, expected) in [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5µs"),
            (2_000_000, "2ms"),
            (2_050_000, "2.05ms"),
            (1_000_000_000, "1s"),
            (1_500_000_000, "1.5s"),
            (60_000_000_000, "1m0s"),
            (900_000_000_000, "15m0s"),
            (3_723_004_000_000, "1h2m3.004s"),
        ] {
            assert_eq!(go_duration(Duration::from_nanos(nanos)), expected);
        }
    }
}
