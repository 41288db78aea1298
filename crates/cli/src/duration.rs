//! Durations on the command line.

use std::time::Duration;

use anyhow::{Context as _, Result};
use coracle_meta::time::parse_go_wait;

/// Parses a duration in Go's format, such as `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration> {
    parse_go_wait(text).context("expected hours, minutes and seconds, such as 1h30m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_parses_go_format() {
        assert_eq!(duration("24h").unwrap(), Duration::from_secs(86_400));
        assert_eq!(duration("1h2m3s").unwrap(), Duration::from_secs(3723));
        for text in ["", "1", "h", "1d", "1h2", "-1h", "99999999999999999999h", "18446744073709551615h", "1é"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
