//! Maps the store's keys to etcd's: all of them are below one root.

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::key;

/// As the end of a range in etcd's API: no end.
const TO_THE_LAST_KEY: Bytes = Bytes::from_static(b"\0");

/// The root of all keys.
#[derive(Clone, Debug)]
pub(super) struct Keyspace {
    root: Bytes,
}

impl Keyspace {
    pub(super) fn new(root: &str) -> Self {
        Self { root: Bytes::copy_from_slice(root.as_bytes()) }
    }

    /// A key that no entry has, because the store's keys are not empty.
    pub(super) fn unused_key(&self) -> Bytes {
        self.root.clone()
    }

    pub(super) fn full_key(&self, key: &[u8]) -> Bytes {
        [&self.root, key].concat().into()
    }

    /// The end of the range of keys that start with `prefix`.
    pub(super) fn prefix_end(&self, prefix: &[u8]) -> Bytes {
        key::prefix_end(&self.full_key(prefix)).map_or(TO_THE_LAST_KEY, Bytes::from)
    }

    /// The store's key for an etcd key.
    pub(super) fn strip(&self, key: &Bytes) -> Result<Bytes> {
        if key.starts_with(&self.root) {
            return Ok(key.slice(self.root.len()..));
        }
        let (key, root) = (key::display(key), key::display(&self.root));
        Err(Error::Refused(format!("etcd answered with key {key}, which is not under {root}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_under_the_root_and_come_back_without_it() {
        let keyspace = Keyspace::new("coracle/");
        let full = keyspace.full_key(b"pods/a");
        assert_eq!(full, "coracle/pods/a");
        assert_eq!(keyspace.strip(&full).unwrap(), "pods/a");
        assert!(keyspace.strip(&Bytes::from_static(b"other/a")).is_err());
    }

    #[test]
    fn a_prefix_of_high_bytes_still_ends_within_the_root() {
        let keyspace = Keyspace::new("coracle/");
        assert_eq!(keyspace.prefix_end(b""), "coracle0");
        assert_eq!(keyspace.prefix_end(b"\xff"), "coracle0");
        assert_eq!(keyspace.prefix_end(b"a"), "coracle/b");
    }
}
