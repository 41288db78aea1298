//! Secrets are compared and looked up by what a keyed hash makes of them. How long that takes says
//! nothing about them, since nobody outside knows the key.

use std::fmt;

use ring::hmac::{HMAC_SHA256, Key};
use ring::rand::SystemRandom;

/// What is made of a secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SecretHash([u8; 32]);

/// Hashes secrets with a key that is made anew for every server.
pub(super) struct SecretHasher(Key);

impl SecretHasher {
    pub(super) fn new() -> Self {
        // As for the uids of objects, a system without randomness is worth a panic at the start.
        Self(Key::generate(HMAC_SHA256, &SystemRandom::new()).expect("the system provides randomness"))
    }

    pub(super) fn hash(&self, secret: &[u8]) -> SecretHash {
        let tag = ring::hmac::sign(&self.0, secret);
        let mut hash = [0; 32];
        hash.copy_from_slice(tag.as_ref());
        SecretHash(hash)
    }

    /// Whether two secrets are one.
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
    fn hashes_tell_secrets_apart_and_servers_too() {
        let (here, there) = (SecretHasher::new(), SecretHasher::new());
        assert!(here.are_equal(b"a", b"a") && !here.are_equal(b"a", b"b") && !here.are_equal(b"", b"a"));
        assert!(here.hash(b"a") != there.hash(b"a"));
    }
}
