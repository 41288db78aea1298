//! Durations in rules, in Go's syntax: `250ms`, `2s`, `1m30s`, or `never`.

use std::time::Duration;

use coracle_meta::time::parse_go_wait;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delay {
    After(Duration),
    Never,
}

impl Delay {
    pub(crate) const AT_ONCE: Self = Self::After(Duration::ZERO);

    /// The duration; none for `never`.
    pub(crate) fn duration(self) -> Option<Duration> {
        match self {
            Self::After(duration) => Some(duration),
            Self::Never => None,
        }
    }
}

/// Parses a delay; none if the text is invalid.
pub(crate) fn delay(text: &str) -> Option<Delay> {
    if text == "never" { Some(Delay::Never) } else { parse_go_wait(text).map(Delay::After) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_parsed() {
        assert_eq!(delay("never"), Some(Delay::Never));
        assert_eq!(delay("2s").and_then(Delay::duration), Some(Duration::from_secs(2)));
        for wrong in ["", "5", "-1s", "Never"] {
            assert_eq!(delay(wrong), None, "{wrong}");
        }
    }
}
