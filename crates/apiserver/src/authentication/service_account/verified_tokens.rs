//! A cache of tokens with verified signatures, so that later requests skip the verification.
//!
//! Only the immutable fact is cached: that a key has signed this text. Each request checks that the key is still
//! accepted, that the token has not expired, and that the object it is bound to still exists.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::authenticator::BearerToken;
use super::super::hasher::{SecretHash, SecretHasher};

/// Tokens in one generation, of which there are two. kube-apiserver caches 32 768 for five thousand nodes; this
/// suffices for the pods of a large cluster at about a kilobyte each, and a miss costs one signature verification.
const GENERATION_TOKENS: usize = 8192;

/// Verified tokens by hash. Entries that are not used while a whole generation fills up are evicted.
pub(super) struct VerifiedTokens<T> {
    hasher: SecretHasher,
    generation_tokens: usize,
    generations: Mutex<Generations<T>>,
}

struct Generations<T> {
    young: HashMap<SecretHash, Arc<T>>,
    old: HashMap<SecretHash, Arc<T>>,
}

impl<T> VerifiedTokens<T> {
    pub(super) fn new() -> Self {
        Self::of_size(GENERATION_TOKENS)
    }

    fn of_size(generation_tokens: usize) -> Self {
        let generations = Mutex::new(Generations { young: HashMap::new(), old: HashMap::new() });
        Self { hasher: SecretHasher::new(), generation_tokens, generations }
    }

    /// The key of a token.
    pub(super) fn hash(&self, token: &BearerToken) -> SecretHash {
        self.hasher.hash(token.expose().as_bytes())
    }

    pub(super) fn find(&self, hash: SecretHash) -> Option<Arc<T>> {
        let mut generations = self.lock();
        if let Some(token) = generations.young.get(&hash) {
            return Some(token.clone());
        }
        let token = generations.old.remove(&hash)?;
        generations.keep(hash, token.clone(), self.generation_tokens);
        Some(token)
    }

    pub(super) fn keep(&self, hash: SecretHash, token: Arc<T>) {
        self.lock().keep(hash, token, self.generation_tokens);
    }

    fn lock(&self) -> MutexGuard<'_, Generations<T>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Generations<T> {
    fn keep(&mut self, hash: SecretHash, token: Arc<T>, limit: usize) {
        if self.young.len() >= limit {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(hash, token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_tokens_stay_cached_and_the_size_is_bounded() {
        let tokens = VerifiedTokens::of_size(10);
        let favourite = tokens.hash(&BearerToken::new("favourite"));
        tokens.keep(favourite, Arc::new(0));
        for number in 1..100 {
            tokens.keep(tokens.hash(&BearerToken::new(number.to_string())), Arc::new(number));
            assert_eq!(tokens.find(favourite).as_deref(), Some(&0));
        }
        assert_eq!(tokens.find(tokens.hash(&BearerToken::new("1"))), None);
        let generations = tokens.lock();
        assert!(generations.young.len() <= 10 && generations.old.len() <= 10);
    }
}
