//! How long to wait before trying again: doubling, capped, with jitter.

use std::time::Duration;

use crate::rng::Rng;

/// Delays for successive attempts at one thing.
///
/// Each delay is drawn between half and the whole of a bound that doubles up to a cap, so
/// that clients that failed together do not come back together.
#[derive(Clone, Debug)]
pub struct Backoff {
    initial: Duration,
    cap: Duration,
    bound: Duration,
    rng: Rng,
}

impl Backoff {
    /// The first delay is at most `initial`, no delay is longer than `cap`.
    pub fn new(initial: Duration, cap: Duration, rng: Rng) -> Self {
        Self { initial, cap, bound: initial, rng }
    }

    /// The delay before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        let bound = self.bound.min(self.cap);
        self.bound = (bound * 2).min(self.cap);
        let half = bound / 2;
        let spread = u64::try_from(half.as_micros()).unwrap_or(u64::MAX);
        half + Duration::from_micros(self.rng.below(spread.saturating_add(1)))
    }

    /// To be called after a success.
    pub fn reset(&mut self) {
        self.bound = self.initial;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap_and_start_over_after_success() {
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
