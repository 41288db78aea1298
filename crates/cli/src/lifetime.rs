//! Spans of time as people write them: `24h`, `90m`, `1h30m`, `7d`.

use std::time::Duration;

use coracle_meta::time::parse_go_wait;

const SECONDS_PER_DAY: u64 = 86_400;

/// Reads a span. The error is for clap, which says where it was.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("invalid duration {text:?}: expected a number and d, h, m or s, such as 24h");
    span(text).ok_or_else(wrong)
}

/// Days, which Go does not know, may come first.
fn span(text: &str) -> Option<Duration> {
    let Some((days, rest)) = text.split_once('d') else { return parse_go_wait(text) };
    let days = Duration::from_secs(days.parse::<u64>().ok()?.checked_mul(SECONDS_PER_DAY)?);
    if rest.is_empty() { Some(days) } else { days.checked_add(parse_go_wait(rest)?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read() {
        for (text, seconds) in
            [("24h", 86_400), ("1h30m", 5_400), ("7d", 604_800), ("1d12h", 129_600), ("5s", 5), ("0", 0)]
        {
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
