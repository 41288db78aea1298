//! A bounded cache with expiry.

use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_base::{Clock, Timestamp};

/// Cache key: a keyed hash, so that clients cannot choose it and it does not reveal the request.
pub(super) type Digest = [u8; 32];

/// Values by digest.
pub(super) struct Cache<T> {
    clock: Clock,
    /// Number of entries in one generation. There are two; when the younger is full, the older is dropped.
    generation: usize,
    generations: Mutex<Generations<T>>,
}

struct Generations<T> {
    young: HashMap<Digest, (Timestamp, T)>,
    old: HashMap<Digest, (Timestamp, T)>,
}

impl<T: Clone> Cache<T> {
    /// A cache with at most `limit` entries.
    pub(super) fn new(limit: usize, clock: Clock) -> Self {
        let generations = Generations { young: HashMap::new(), old: HashMap::new() };
        Self { clock, generation: limit.div_ceil(2), generations: Mutex::new(generations) }
    }

    /// The value, unless it is missing or expired.
    pub(super) fn get(&self, digest: &Digest) -> Option<T> {
        let now = self.clock.now();
        let generations = self.lock();
        let found = generations.young.get(digest).or_else(|| generations.old.get(digest));
        found.filter(|(until, _)| now < *until).map(|(_, answer)| answer.clone())
    }

    /// Caches a value for `time_to_live`.
    pub(super) fn put(&self, digest: Digest, answer: T, time_to_live: Duration) {
        let until = self.clock.now() + time_to_live;
        let mut generations = self.lock();
        if generations.young.len() >= self.generation && !generations.young.contains_key(&digest) {
            generations.old = mem::take(&mut generations.young);
        }
        generations.young.insert(digest, (until, answer));
    }

    fn lock(&self) -> MutexGuard<'_, Generations<T>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use coracle_base::ManualClock;

    use super::*;

    fn digest(number: u8) -> Digest {
        [number; 32]
    }

    #[test]
    fn cached_value_expires() {
        let time = ManualClock::starting_at(Timestamp::from_millis(0));
        let cache = Cache::new(8, time.clock());
        cache.put(digest(1), true, Duration::from_secs(2));
        time.advance(Duration::from_millis(1999));
        assert_eq!(cache.get(&digest(1)), Some(true));
        time.advance(Duration::from_millis(1));
        assert_eq!(cache.get(&digest(1)), None);
    }

    #[test]
    fn cache_is_bounded() {
        let cache = Cache::new(8, Clock::system());
        for number in 0..100 {
            cache.put(digest(number), number, Duration::from_secs(60));
            assert_eq!(cache.get(&digest(number)), Some(number));
        }
        let generations = cache.lock();
        assert!(generations.young.len() + generations.old.len() <= 8);
    }
}
