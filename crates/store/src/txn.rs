//! Write requests: puts and deletes with conditions, executed atomically.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::key;
use crate::revision::Revision;

/// Maximum size of a value. Kubernetes objects are limited by the 3 MiB of a request body plus fields that the server
/// adds; with etcd, its own default of 1.5 MiB applies.
pub const MAX_VALUE_BYTES: usize = 4 << 20;

/// Maximum number of operations and checks in one transaction, as etcd's default.
pub const MAX_TXN_OPS: usize = 128;

/// Maximum size of keys and values in one transaction, which must fit into one log segment.
pub const MAX_TXN_BYTES: usize = 8 << 20;

/// A condition on a key for a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// No condition.
    #[default]
    Any,
    /// The key does not exist.
    Absent,
    /// The key was last written at this revision.
    ModRevision(Revision),
}

impl Expect {
    /// Returns true if a key last written at `found` (`None` if it does not exist) meets the condition.
    pub fn is_met_by(self, found: Option<Revision>) -> bool {
        match self {
            Expect::Any => true,
            Expect::Absent => found.is_none(),
            Expect::ModRevision(expected) => found == Some(expected),
        }
    }
}

/// A value to write to a key.
#[derive(Clone, Debug)]
pub struct Put {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Bytes,
    pub(crate) expect: Expect,
    pub(crate) ttl: Option<Duration>,
    pub(crate) stamp: Option<u32>,
}

impl Put {
    /// Writes `value` to `key` unconditionally.
    pub fn new(key: impl Into<Vec<u8>>, value: impl Into<Bytes>) -> Self {
        Self { key: key.into(), value: value.into(), expect: Expect::Any, ttl: None, stamp: None }
    }

    /// Adds a condition on the key.
    #[must_use]
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Deletes the key after this time, unless it is written again before. Never earlier; the delay depends on the
    /// engine (etcd: up to a minute).
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Stamps the decimal revision of this write into the value at byte `offset`, as seen by readers.
    ///
    /// A value that contains its own revision is known only when it is committed; the stamp allows one encoded value
    /// to be stored, read, listed and watched.
    #[must_use]
    pub fn stamp_at(mut self, offset: u32) -> Self {
        self.stamp = Some(offset);
        self
    }

    fn check(&self) -> Result<()> {
        key::check(&self.key)?;
        if self.value.len() > MAX_VALUE_BYTES {
            let (what, bytes, limit) = ("value", self.value.len(), MAX_VALUE_BYTES);
            return Err(Error::TooLarge { what, bytes, limit });
        }
        if self.stamp.is_some_and(|at| at as usize > self.value.len()) {
            return Err(Error::InvalidTxn { reason: "the stamp lies outside the value".into() });
        }
        Ok(())
    }
}

/// A key to delete.
#[derive(Clone, Debug)]
pub struct Delete {
    pub(crate) key: Vec<u8>,
    pub(crate) expect: Expect,
}

impl Delete {
    /// Deletes `key` if it exists.
    pub fn new(key: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into(), expect: Expect::Any }
    }

    /// Adds a condition on the key.
    #[must_use]
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }
}

/// An operation of a transaction.
#[derive(Clone, Debug)]
pub enum Op {
    /// Write a key.
    Put(Put),
    /// Delete a key; no effect if it does not exist.
    Delete(Delete),
    /// Delete every key that starts with this prefix.
    DeletePrefix(Vec<u8>),
}

/// Operations that are executed atomically, at one revision.
///
/// A transaction that changes nothing (only deletes of missing keys) creates no revision.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    pub(crate) checks: Vec<(Vec<u8>, Expect)>,
    pub(crate) ops: Vec<Op>,
}

impl Txn {
    /// An empty transaction.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition on a key that the transaction does not have to write.
    #[must_use]
    pub fn check(mut self, key: impl Into<Vec<u8>>, expect: Expect) -> Self {
        self.checks.push((key.into(), expect));
        self
    }

    /// Adds a put.
    #[must_use]
    pub fn put(mut self, put: Put) -> Self {
        self.ops.push(Op::Put(put));
        self
    }

    /// Adds a delete.
    #[must_use]
    pub fn delete(mut self, delete: Delete) -> Self {
        self.ops.push(Op::Delete(delete));
        self
    }

    /// Adds the deletion of all keys with a prefix.
    #[must_use]
    pub fn delete_prefix(mut self, prefix: impl Into<Vec<u8>>) -> Self {
        self.ops.push(Op::DeletePrefix(prefix.into()));
        self
    }

    /// All conditions of the transaction, in the order in which they are checked.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = (&[u8], Expect)> {
        let own = self.ops.iter().filter_map(|op| match op {
            Op::Put(put) => Some((put.key.as_slice(), put.expect)),
            Op::Delete(delete) => Some((delete.key.as_slice(), delete.expect)),
            Op::DeletePrefix(_) => None,
        });
        let checks = self.checks.iter().map(|(key, expect)| (key.as_slice(), *expect));
        checks.chain(own).filter(|(_, expect)| *expect != Expect::Any)
    }

    /// Rejects transactions that engines would execute differently.
    pub(crate) fn validate(&self) -> Result<()> {
        let steps = self.ops.len() + self.checks.len();
        if steps > MAX_TXN_OPS {
            return Err(Error::TooLarge {
                what: "transaction (operations)",
                bytes: steps,
                limit: MAX_TXN_OPS,
            });
        }
        let mut written = HashSet::new();
        let mut prefixes: Vec<&[u8]> = Vec::new();
        let mut bytes = 0;
        for op in &self.ops {
            match op {
                Op::Put(put) => {
                    put.check()?;
                    bytes += put.key.len() + put.value.len();
                    self.write_once(&mut written, &put.key)?;
                }
                Op::Delete(delete) => {
                    key::check(&delete.key)?;
                    bytes += delete.key.len();
                    self.write_once(&mut written, &delete.key)?;
                }
                Op::DeletePrefix(prefix) => prefixes.push(prefix),
            }
        }
        for (key, _) in &self.checks {
            key::check(key)?;
        }
        if bytes > MAX_TXN_BYTES {
            return Err(Error::TooLarge { what: "transaction", bytes, limit: MAX_TXN_BYTES });
        }
        self.prefixes_apart(&written, &prefixes)
    }

    fn write_once<'a>(&self, written: &mut HashSet<&'a [u8]>, key: &'a [u8]) -> Result<()> {
        if written.insert(key) {
            return Ok(());
        }
        Err(Error::InvalidTxn { reason: format!("key {} is written twice", key::display(key)) })
    }

    fn prefixes_apart(&self, written: &HashSet<&[u8]>, prefixes: &[&[u8]]) -> Result<()> {
        let nested = prefixes.iter().enumerate().any(|(at, prefix)| {
            written.iter().any(|key| key.starts_with(prefix))
                || prefixes
                    .iter()
                    .enumerate()
                    .any(|(other, longer)| at != other && longer.starts_with(prefix))
        });
        if nested {
            return Err(Error::InvalidTxn { reason: "a deleted prefix covers another operation".into() });
        }
        Ok(())
    }
}

/// Result of an executed transaction.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The revision that it created, or the current one if it changed nothing.
    pub revision: Revision,
    /// The previous entry for each put and delete of a single key, in order.
    pub previous: Vec<Option<Entry>>,
    /// Number of keys deleted by prefix.
    pub deleted: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_operations_are_rejected() {
        let twice = Txn::new().put(Put::new("a", "1")).delete(Delete::new("a"));
        let covered = Txn::new().put(Put::new("a/b", "1")).delete_prefix("a/");
        let nested = Txn::new().delete_prefix("a/").delete_prefix("a/b/");
        for txn in [twice, covered, nested] {
            assert!(matches!(txn.validate(), Err(Error::InvalidTxn { .. })));
        }
        assert!(Txn::new().delete_prefix("a/").delete_prefix("b/").validate().is_ok());
    }

    #[test]
    fn oversized_values_and_transactions_are_rejected() {
        let large = Txn::new().put(Put::new("a", vec![0; MAX_VALUE_BYTES + 1]));
        assert!(matches!(large.validate(), Err(Error::TooLarge { what: "value", .. })));
        let many = (0..=MAX_TXN_OPS).fold(Txn::new(), |txn, n| txn.put(Put::new(n.to_string(), "")));
        assert!(matches!(many.validate(), Err(Error::TooLarge { .. })));
        let stamp = Txn::new().put(Put::new("a", "xy").stamp_at(3));
        assert!(matches!(stamp.validate(), Err(Error::InvalidTxn { .. })));
    }
}
