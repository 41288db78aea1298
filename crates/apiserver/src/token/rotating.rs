//! A signer whose key can be replaced while tokens are signed and verified.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::signer::{EcdsaSigner, PublicKey, SignerError, TokenSigner};

/// How often a key can be replaced in one process. Old keys are kept, because other threads may still use them; after
/// the last replacement the server must be restarted.
const MAX_KEYS: usize = 256;

/// Signs with the most recently set key.
pub struct RotatingSigner {
    keys: Vec<OnceLock<EcdsaSigner>>,
    first: EcdsaSigner,
    /// Number of `keys` that are set.
    set: AtomicUsize,
}

impl RotatingSigner {
    /// Creates a signer with a first key.
    pub fn new(first: EcdsaSigner) -> Self {
        let keys = std::iter::repeat_with(OnceLock::new).take(MAX_KEYS - 1).collect();
        Self { keys, first, set: AtomicUsize::new(0) }
    }

    /// Signs with another key from now on. Its public keys should include those of the former keys. A signer with the
    /// same keys as the last changes nothing.
    ///
    /// # Errors
    /// If the key was replaced too often.
    pub fn replace(&self, next: EcdsaSigner) -> Result<(), SignerError> {
        let set = self.set.load(Ordering::Acquire);
        if self.signer().public_keys() == next.public_keys() {
            return Ok(());
        }
        let slot = self.keys.get(set).ok_or(SignerError::Worn)?;
        // If another thread was faster, its key is used.
        if slot.set(next).is_ok() {
            self.set.store(set + 1, Ordering::Release);
        }
        Ok(())
    }

    fn signer(&self) -> &EcdsaSigner {
        let set = self.set.load(Ordering::Acquire);
        set.checked_sub(1).and_then(|last| self.keys.get(last)?.get()).unwrap_or(&self.first)
    }
}

impl fmt::Debug for RotatingSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RotatingSigner").field("key_id", &self.key_id()).finish_non_exhaustive()
    }
}

impl TokenSigner for RotatingSigner {
    fn issuer(&self) -> &str {
        self.signer().issuer()
    }

    fn algorithm(&self) -> &'static str {
        self.signer().algorithm()
    }

    fn key_id(&self) -> &str {
        self.signer().key_id()
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignerError> {
        self.signer().sign(message)
    }

    fn public_keys(&self) -> &[PublicKey] {
        self.signer().public_keys()
    }

    fn current(&self) -> &dyn TokenSigner {
        self.signer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer() -> EcdsaSigner {
        let pem = rcgen::KeyPair::generate().unwrap().serialize_pem();
        EcdsaSigner::from_pem("https://issuer.example", pem.as_bytes()).unwrap()
    }

    #[test]
    fn current_signer_is_unchanged_while_held() {
        let rotating = RotatingSigner::new(signer());
        let held = rotating.current();
        let old = rotating.public_keys().to_vec();
        let next = old.iter().cloned().fold(signer(), EcdsaSigner::with_retired_key);
        rotating.replace(next).unwrap();
        assert_ne!(held.key_id(), rotating.key_id());
        assert_eq!(held.public_keys(), old);
        assert!(rotating.public_keys().contains(&old[0]) && rotating.public_keys().len() == 2);
    }

    #[test]
    fn it_wears_out() {
        let rotating = RotatingSigner::new(signer());
        for _ in 1..MAX_KEYS {
            rotating.replace(signer()).unwrap();
        }
        let last = rotating.key_id().to_owned();
        assert!(matches!(rotating.replace(signer()), Err(SignerError::Worn)));
        assert_eq!(rotating.key_id(), last);
    }
}
