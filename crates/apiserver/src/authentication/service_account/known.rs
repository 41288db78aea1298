//! Tokens whose signatures were found good, so that the next request with one need not do the sums.
//!
//! Only what can never change is kept: that a key has signed these words. Whether that key still counts,
//! whether the token is valid now, and whether what it is bound to is still there is asked every time.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::authenticator::BearerToken;
use super::super::hasher::{SecretHash, SecretHasher};

/// Tokens in one generation, of which there are two. Upstream keeps 32 768 for five thousand nodes; this
/// is enough for the pods of a large cluster at about a kilobyte each, and whoever is not among them
/// pays for one signature.
const GENERATION_TOKENS: usize = 8192;

/// What is known of tokens, by their hashes. What nobody asked for while a whole generation was filled
/// is forgotten.
pub(super) struct KnownTokens<T> {
    hasher: SecretHasher,
    generation_tokens: usize,
    generations: Mutex<Generations<T>>,
}

struct Generations<T> {
    young: HashMap<SecretHash, Arc<T>>,
    old: HashMap<SecretHash, Arc<T>>,
}

impl<T> KnownTokens<T> {
    pub(super) fn new() -> Self {
        Self::of_size(GENERATION_TOKENS)
    }

    fn of_size(generation_tokens: usize) -> Self {
        let generations = Mutex::new(Generations { young: HashMap::new(), old: HashMap::new() });
        Self { hasher: SecretHasher::new(), generation_tokens, generations }
    }

    /// By what a token is found.
    pub(super) fn hash(&self, token: &BearerToken) -> SecretHash {
        self.hasher.hash(token.expose().as_bytes())
    }

    pub(super) fn find(&self, hash: SecretHash) -> Option<Arc<T>> {
        let mut generations = self.lock();
        if let Some(known) = generations.young.get(&hash) {
            return Some(known.clone());
        }
        let known = generations.old.remove(&hash)?;
        generations.keep(hash, known.clone(), self.generation_tokens);
        Some(known)
    }

    pub(super) fn keep(&self, hash: SecretHash, known: Arc<T>) {
        self.lock().keep(hash, known, self.generation_tokens);
    }

    fn lock(&self) -> MutexGuard<'_, Generations<T>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Generations<T> {
    fn keep(&mut self, hash: SecretHash, known: Arc<T>, limit: usize) {
        if self.young.len() >= limit {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(hash, known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_is_bounded() {
        let known = KnownTokens::of_size(10);
        let favourite = known.hash(&BearerToken::new("favourite"));
        known.keep(favourite, Arc::new(0));
        for number in 1..100 {
            known.keep(known.hash(&BearerToken::new(number.to_string())), Arc::new(number));
            assert_eq!(known.find(favourite).as_deref(), Some(&0));
        }
        assert_eq!(known.find(known.hash(&BearerToken::new("1"))), None);
        let generations = known.lock();
        assert!(generations.young.len() <= 10 && generations.old.len() <= 10);
    }
}
