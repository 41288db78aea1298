//! Random numbers: the only module that seeds from the operating system.
//!
//! Not for keys or tokens: the cryptography provider generates those.

/// A small pseudo-random generator, seeded by the operating system in programs and by a number in
/// tests.
#[derive(Clone, Debug)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// Creates a generator seeded by the operating system.
    pub fn from_entropy() -> Self {
        // The system call fails only on kernels without any entropy source; a fixed seed
        // would then silently repeat identifiers, so this is worth a panic at start.
        let seed = getrandom::u64().expect("the operating system provides randomness");
        Self::seeded(seed)
    }

    /// Creates a generator that repeats the same sequence for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Creates a generator whose sequence is determined by the state of this one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    /// Returns a random 64-bit number.
    pub fn u64(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a random number in `0..bound`, or zero if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.u64(0..bound) }
    }

    /// Returns true with probability 1/`n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_with_same_seed_yield_same_sequence() {
        let (mut a, mut b) = (Rng::seeded(7), Rng::seeded(7));
        assert!((0..100).all(|_| a.u64() == b.u64()));
    }

    #[test]
    fn forks_are_repeatable_and_differ_from_each_other() {
        let (mut a, mut b) = (Rng::seeded(7), Rng::seeded(7));
        assert_eq!(a.fork().u64(), b.fork().u64());
        assert_ne!(a.fork().u64(), a.fork().u64());
    }

    #[test]
    fn below_returns_less_than_bound() {
        let mut rng = Rng::seeded(1);
        assert!((0..1_000).all(|_| rng.below(10) < 10));
        assert_eq!(rng.below(0), 0);
    }
}
