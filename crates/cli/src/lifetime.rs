//! Lifetimes on the command line: `24h`, `90m`, `1h30m`, `7d`.

use std::time::Duration;

use coracle_meta::time::parse_go_wait;

const SECONDS_PER_DAY: u64 = 86_400;

/// Parses a lifetime. Clap adds the name of the flag to the error.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("invalid duration {text:?}: expected a number and d, h, m or s, such as 24h");
    lifetime(text).ok_or_else(wrong)
}

/// Days may come first; Go's duration format has none.
fn lifetime(text: &str) -> Option<Duration> {
    let Some((days, rest)) = text.split_once('d') else { return parse_go_wait(text) };
    let days = Duration::from_secs(days.parse::<u64>().ok()?.checked_mul(SECONDS_PER_DAY)?);
    if rest.is_empty() { Some(days) } else { days.checked_add(parse_go_wait(rest)?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetime_parses_days_and_go_durations() {
        for (text, seconds) in
            [("24h", 86_400), ("1h30m", 5_400), ("7d", 604_800), ("1d12h", 129_600), ("5s", 5), ("0", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn invalid_lifetime_is_rejected_with_an_example() {
        for text in ["", "h", "24", "1y", "-1h", "1h2", "99999999999999999999h", "9999999999999999d"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("such as 24h"), "{error}");
        }
    }
}
