//! The only place that asks the system for randomness.
//!
//! Not for keys or tokens: those come from the cryptography provider.

/// A small random generator: seeded from the system in programs, by a number in tests.
#[derive(Clone, Debug)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// Seeded from the operating system.
    pub fn from_entropy() -> Self {
        // The system call fails only on kernels without any entropy source; a fixed seed
        // would then silently repeat identifiers, so this is worth a panic at start.
        let seed = getrandom::u64().expect("the operating system provides randomness");
        Self::seeded(seed)
    }

    /// Repeats the same sequence for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Another generator, whose sequence follows from this one's.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    /// Any 64-bit number.
    pub fn u64(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number in `0..bound`; zero when `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.u64(0..bound) }
    }

    /// True once in `n` calls on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_sequence() {
        let (mut a, mut b) = (Rng::seeded(7), Rng::seeded(7));
        assert!((0..100).all(|_| a.u64() == b.u64()));
    }

    #[test]
    fn forks_of_the_same_seed_are_the_same_and_differ_from_each_other() {
        let (mut a, mut b) = (Rng::seeded(7), Rng::seeded(7));
        assert_eq!(a.fork().u64(), b.fork().u64());
        assert_ne!(a.fork().u64(), a.fork().u64());
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::seeded(1);
        assert!((0..1_000).all(|_| rng.below(10) < 10));
        assert_eq!(rng.below(0), 0);
    }
}
