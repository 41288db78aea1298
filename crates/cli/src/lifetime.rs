//! Spans of time as people write them: `24h`, `90m`, `1h30m`, `7d`.

use std::time::Duration;

/// Reads a span. The error is for clap, which says where it was.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no span of time: expected a number and d, h, m or s, such as 24h");
    let mut total = Duration::ZERO;
    let mut rest = text;
    if rest == "0" {
        return Ok(total);
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = rest.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let seconds: u64 = match unit.chars().next() {
            Some('d') => 86_400,
            Some('h') => 3_600,
            Some('m') => 60,
            Some('s') => 1,
            _ => return Err(wrong()),
        };
        total = number
            .checked_mul(seconds)
            .and_then(|seconds| total.checked_add(Duration::from_secs(seconds)))
            .ok_or_else(wrong)?;
        rest = &unit[1..];
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read() {
        for (text, seconds) in [("24h", 86_400), ("1h30m", 5_400), ("7d", 604_800), ("5s", 5), ("0", 0)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_explained() {
        for text in ["", "h", "24", "1y", "-1h", "1h2", "99999999999999999999h", "9999999999999999d"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("such as 24h"), "{error}");
        }
    }
}
