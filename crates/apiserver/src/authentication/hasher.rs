//! Keyed hashes of secrets, for comparison and lookup. Their timing reveals nothing about the secrets, because the key
//! never leaves the process.

use std::fmt;

use ring::hmac::{HMAC_SHA256, Key};
use ring::rand::SystemRandom;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SecretHash([u8; 32]);

/// Hashes secrets with a key that is generated for each server.
pub(super) struct SecretHasher(Key);

impl SecretHasher {
    pub(super) fn new() -> Self {
        // As for the uids of objects, a system without randomness justifies a panic at startup.
        Self(Key::generate(HMAC_SHA256, &SystemRandom::new()).expect("the system provides randomness"))
    }

    pub(super) fn hash(&self, secret: &[u8]) -> SecretHash {
        let tag = ring::hmac::sign(&self.0, secret);
        let mut hash = [0; 32];
        hash.copy_from_slice(tag.as_ref());
        SecretHash(hash)
    }

    /// Returns true if two secrets are equal.
    pub(super) fn are_equal(&self, one: &[u8], other: &[u8]) -> bool {
        self.hash(one) == self.hash(other)
    }
}

impl fmt::Debug for SecretHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHasher(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_differ_by_secret_and_by_server() {
        let (here, there) = (SecretHasher::new(), SecretHasher::new());
        assert!(here.are_equal(b"a", b"a") && !here.are_equal(b"a", b"b") && !here.are_equal(b"", b"a"));
        assert!(here.hash(b"a") != there.hash(b"a"));
    }
}
