//! Times in rules, written as in Go: `250ms`, `2s`, `1m30s`, or `never`.

use std::time::Duration;

/// How long something takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delay {
    After(Duration),
    Never,
}

impl Delay {
    pub(super) const AT_ONCE: Self = Self::After(Duration::ZERO);

    /// The time, if it ever comes.
    pub(super) fn duration(self) -> Option<Duration> {
        match self {
            Self::After(duration) => Some(duration),
            Self::Never => None,
        }
    }
}

/// Reads one; none if it is no such text.
pub(super) fn delay(text: &str) -> Option<Delay> {
    if text == "never" { Some(Delay::Never) } else { duration(text).map(Delay::After) }
}

/// Reads a duration; none if it is no such text.
pub(super) fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut total) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, after) = rest.split_at(number);
        let unit_len = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_len);
        let unit_s = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let seconds: f64 = digits.parse::<f64>().ok()? * unit_s;
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_in_go() {
        let millis = |text| duration(text).map(|duration| duration.as_millis());
        assert_eq!(millis("0"), Some(0));
        assert_eq!(millis("250ms"), Some(250));
        assert_eq!(millis("1m30s"), Some(90_000));
        assert_eq!(millis("1.5h"), Some(5_400_000));
        for wrong in ["", "5", "s", "1d", "-1s", "1.2.3s", "1s2", "never"] {
            assert_eq!(millis(wrong), None, "{wrong}");
        }
        assert_eq!(delay("never"), Some(Delay::Never));
        assert_eq!(delay("2s").and_then(Delay::duration), Some(Duration::from_secs(2)));
    }
}
