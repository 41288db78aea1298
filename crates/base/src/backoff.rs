//! Exponential backoff with a cap and jitter.

use std::time::Duration;

use crate::rng::Rng;

/// Exponential backoff for the retries of one operation.
///
/// Each delay is drawn at random between half of a bound and the whole of it; the bound doubles up
/// to a cap. The jitter keeps clients that failed together from retrying together.
#[derive(Clone, Debug)]
pub struct Backoff {
    initial: Duration,
    cap: Duration,
    bound: Duration,
    rng: Rng,
}

impl Backoff {
    /// Creates a backoff whose first delay is at most `initial` and whose delays never exceed
    /// `cap`.
    pub fn new(initial: Duration, cap: Duration, rng: Rng) -> Self {
        Self { initial, cap, bound: initial, rng }
    }

    /// Returns the delay before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        let bound = self.bound.min(self.cap);
        self.bound = (bound * 2).min(self.cap);
        let half = bound / 2;
        let spread = u64::try_from(half.as_micros()).unwrap_or(u64::MAX);
        half + Duration::from_micros(self.rng.below(spread.saturating_add(1)))
    }

    /// Restarts at the initial delay; call it after a success.
    pub fn reset(&mut self) {
        self.bound = self.initial;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_cap_and_restart_after_reset() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(100), ms(350), Rng::seeded(3));
        for bound in [100, 200, 350, 350] {
            let delay = backoff.next_delay();
            assert!(delay >= ms(bound / 2) && delay <= ms(bound), "{delay:?} for {bound}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= ms(100));
    }
}
