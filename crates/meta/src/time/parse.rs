//! Parser for RFC 3339, as lenient as Go's and with the same error messages.
//!
//! Go accepts an hour with one digit, a comma before the fraction, a fraction of any length in
//! layouts without one, and offsets up to 24:60.

use super::civil;

/// The expected layout of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Seconds, with an optional fraction.
    Seconds,
    /// Microseconds, with exactly six fractional digits.
    Micros,
}

impl Layout {
    /// Returns the layout in Go's notation.
    fn text(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// A malformed time, with Go's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parsing time {value}{problem}")]
pub struct ParseTimeError {
    value: String,
    problem: String,
}

/// The reason and position of a parse error.
enum Problem<'a> {
    /// An element of the layout was not found here.
    Expected(&'static str, &'a [u8]),
    OutOfRange(&'static str),
    Extra(&'a [u8]),
}

/// Parses a time. Returns seconds since the Unix epoch and nanoseconds.
///
/// # Errors
/// If the text does not match the layout.
pub fn parse(text: &str, layout: Layout) -> Result<(i64, u32), ParseTimeError> {
    Parser { rest: text.as_bytes() }.read(layout).map_err(|problem| ParseTimeError {
        value: quote(text.as_bytes()),
        problem: match problem {
            Problem::Expected(element, found) => format!(
                " as {}: cannot parse {} as {}",
                quote(layout.text().as_bytes()),
                quote(found),
                quote(element.as_bytes())
            ),
            Problem::OutOfRange(what) => format!(": {what} out of range"),
            Problem::Extra(extra) => format!(": extra text: {}", quote(extra)),
        },
    })
}

struct Parser<'a> {
    rest: &'a [u8],
}

impl<'a> Parser<'a> {
    fn read(mut self, layout: Layout) -> Result<(i64, u32), Problem<'a>> {
        let year = self.year()?;
        self.literal("-")?;
        let month = self.two_digits("01")?;
        in_range(month, 1, 12, "month")?;
        self.literal("-")?;
        let day = self.two_digits("02")?;
        self.literal("T")?;
        let hour = self.hour()?;
        self.literal(":")?;
        let minute = self.two_digits("04")?;
        in_range(minute, 0, 59, "minute")?;
        self.literal(":")?;
        let second = self.two_digits("05")?;
        in_range(second, 0, 59, "second")?;
        let nanos = match layout {
            Layout::Seconds => self.any_fraction(),
            Layout::Micros => self.six_digits()?,
        };
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(Problem::Extra(self.rest));
        }
        in_range(day, 1, civil::days_in(year, month), "day")?;
        let days = civil::to_days(year, month, day);
        let seconds = days * civil::SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset;
        Ok((seconds, nanos))
    }

    fn year(&mut self) -> Result<i64, Problem<'a>> {
        let here = self.rest;
        let (digits, rest) = here.split_at_checked(4).ok_or(Problem::Expected("2006", here))?;
        self.rest = rest;
        number(digits).ok_or(Problem::Expected("2006", here))
    }

    fn two_digits(&mut self, element: &'static str) -> Result<i64, Problem<'a>> {
        let here = self.rest;
        let (digits, rest) = here.split_at_checked(2).ok_or(Problem::Expected(element, here))?;
        self.rest = rest;
        number(digits).ok_or(Problem::Expected(element, here))
    }

    /// Parses an hour with one or two digits.
    fn hour(&mut self) -> Result<i64, Problem<'a>> {
        let here = self.rest;
        let length = here.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = here.split_at(length);
        self.rest = rest;
        let hour = number(digits).ok_or(Problem::Expected("15", here))?;
        in_range(hour, 0, 23, "hour")?;
        Ok(hour)
    }

    fn literal(&mut self, literal: &'static str) -> Result<(), Problem<'a>> {
        let here = self.rest;
        self.rest = here.strip_prefix(literal.as_bytes()).ok_or(Problem::Expected(literal, here))?;
        Ok(())
    }

    /// Parses an optional fraction of any length, of which nine digits are significant.
    fn any_fraction(&mut self) -> u32 {
        let [b'.' | b',', digits @ ..] = self.rest else { return 0 };
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 {
            return 0;
        }
        let (digits, rest) = digits.split_at(length);
        self.rest = rest;
        (0..9).fold(0, |nanos, at| nanos * 10 + u32::from(digits.get(at).map_or(0, |byte| byte - b'0')))
    }

    fn six_digits(&mut self) -> Result<u32, Problem<'a>> {
        const ELEMENT: &str = ".000000";
        let here = self.rest;
        let (fraction, rest) =
            here.split_at_checked(ELEMENT.len()).ok_or(Problem::Expected(ELEMENT, here))?;
        self.rest = rest;
        // Go parses the digits as a number, which may have a sign.
        let micros = match fraction {
            [b'.' | b',', b'+', digits @ ..] => number(digits),
            [b'.' | b',', b'-', digits @ ..] => number(digits).map(|micros| -micros),
            [b'.' | b',', digits @ ..] => number(digits),
            _ => None,
        };
        let micros = micros.ok_or(Problem::Expected(ELEMENT, here))?;
        Ok(u32::try_from(micros).map_err(|_| Problem::OutOfRange("fractional second"))? * 1000)
    }

    /// Parses the offset from UTC, in seconds.
    fn offset(&mut self) -> Result<i64, Problem<'a>> {
        let here = self.rest;
        let bad = || Problem::Expected("Z07:00", here);
        if let [b'Z', rest @ ..] = here {
            self.rest = rest;
            return Ok(0);
        }
        let (offset, rest) = here.split_at_checked(6).ok_or_else(bad)?;
        let [sign, h1, h2, b':', m1, m2] = *offset else { return Err(bad()) };
        self.rest = rest;
        let hours = number(&[h1, h2]);
        let minutes = hours.and_then(|_| number(&[m1, m2]));
        // Go checks the ranges first, and of two wrong ones reports the latter.
        in_range(minutes.unwrap_or(0), 0, 60, "time zone offset minute")?;
        in_range(hours.unwrap_or(0), 0, 24, "time zone offset hour")?;
        let seconds = (hours.ok_or_else(bad)? * 60 + minutes.ok_or_else(bad)?) * 60;
        match sign {
            b'+' => Ok(seconds),
            b'-' => Ok(-seconds),
            _ => Err(bad()),
        }
    }
}

fn in_range<'a>(value: i64, low: i64, high: i64, what: &'static str) -> Result<(), Problem<'a>> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(Problem::OutOfRange(what)) }
}

fn number(digits: &[u8]) -> Option<i64> {
    let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    valid.then(|| digits.iter().fold(0, |number, byte| number * 10 + i64::from(byte - b'0')))
}

/// Quotes text as Go's time package does, which escapes everything beyond ASCII.
fn quote(text: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for byte in text {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(*byte));
            }
            b' '..=0x7f => quoted.push(char::from(*byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_times_are_parsed_as_in_go() {
        for (text, expected) in [
            ("2024-02-29T12:00:00Z", (1_709_208_000, 0)),
            ("2024-02-29T12:00:00+02:00", (1_709_200_800, 0)),
            ("2024-02-29T12:00:00-00:30", (1_709_209_800, 0)),
            ("2024-02-29T12:00:00.5Z", (1_709_208_000, 500_000_000)),
            ("2024-02-29T12:00:00,1234567891Z", (1_709_208_000, 123_456_789)),
            ("2024-02-29T9:00:00Z", (1_709_197_200, 0)),
            ("2024-02-29T12:00:00+24:60", (1_709_118_000, 0)),
        ] {
            assert_eq!(parse(text, Layout::Seconds), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn malformed_time_returns_message_of_go() {
        let layout = r#" as "2006-01-02T15:04:05Z07:00": cannot parse "#;
        for (text, problem) in [
            ("", format!("{layout}\"\" as \"2006\"")),
            ("yesterday", format!("{layout}\"yesterday\" as \"2006\"")),
            ("2024/02/29", format!("{layout}\"/02/29\" as \"-\"")),
            ("2024-02-29 12:00:00Z", format!("{layout}\" 12:00:00Z\" as \"T\"")),
            ("2024-02-29T12:00:00", format!("{layout}\"\" as \"Z07:00\"")),
            ("2024-02-29T12:00:00z", format!("{layout}\"z\" as \"Z07:00\"")),
            ("2024-13-29T12:00:00Z", ": month out of range".to_owned()),
            ("2023-02-29T12:00:00Z", ": day out of range".to_owned()),
            ("2024-02-29T24:00:00Z", ": hour out of range".to_owned()),
            ("2024-02-29T23:59:60Z", ": second out of range".to_owned()),
            ("2024-02-29T12:00:00+25:00", ": time zone offset hour out of range".to_owned()),
            ("2024-02-29T12:00:00Zé", r#": extra text: "\xc3\xa9""#.to_owned()),
        ] {
            let error = parse(text, Layout::Seconds).unwrap_err();
            assert_eq!(error.problem, problem, "{text:?}");
        }
        let error = parse("2024-02-29T12:00:00Z", Layout::Micros).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"parsing time "2024-02-29T12:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
        );
    }
}
