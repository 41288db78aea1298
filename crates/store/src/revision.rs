//! The counter that orders all writes.

use std::fmt;

/// A position in the store's single sequence of writes.
///
/// An empty store is at [`Revision::INITIAL`], so clients never see revision 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// The revision of a store without writes, as in etcd.
    pub const INITIAL: Revision = Revision(1);

    /// The revision with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next revision.
    #[must_use]
    pub const fn next(self) -> Self {
        // 2^64 writes are out of reach; wrapping would reorder history, so panic instead.
        Self(self.0.checked_add(1).expect("a store makes fewer than 2^64 revisions"))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
