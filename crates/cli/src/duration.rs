//! Durations on the command line.

use std::time::Duration;

use anyhow::{Result, bail};

/// Hours, minutes and seconds as Go writes them, such as `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration> {
    let (mut total, mut rest) = (0_u64, text);
    while let Some((end, unit)) = rest.char_indices().find(|(_, character)| !character.is_ascii_digit()) {
        let seconds_each = match unit {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => bail!("expected hours, minutes and seconds, such as 1h30m"),
        };
        let count: u64 = rest[..end].parse()?;
        let seconds = count.checked_mul(seconds_each).and_then(|seconds| total.checked_add(seconds));
        let Some(seconds) = seconds else { bail!("it is too long") };
        // All units have one byte.
        (total, rest) = (seconds, &rest[end + 1..]);
    }
    if !rest.is_empty() || text.is_empty() {
        bail!("expected hours, minutes and seconds, such as 1h30m");
    }
    Ok(Duration::from_secs(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(duration("24h").unwrap(), Duration::from_secs(86_400));
        assert_eq!(duration("1h2m3s").unwrap(), Duration::from_secs(3723));
        for text in ["", "1", "h", "1d", "1h2", "-1h", "99999999999999999999h", "18446744073709551615h", "1é"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
