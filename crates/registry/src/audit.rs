//! What is noted of a request for the audit log.
//!
//! Whoever keeps a record of requests hands in [`AuditAnnotations`] with each, and reads from them
//! afterwards what admission had to say. A request without them is not recorded, and nothing is noted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes of keys and values that are kept for one request. One annotation has at most
/// 10 KiB, so a hundred fit; what comes after them is dropped.
const MAX_BYTES: usize = 1 << 20;

/// Notes about one request, each under a key. Clones are the same notes.
#[derive(Clone, Debug, Default)]
pub struct AuditAnnotations {
    noted: Arc<Mutex<Noted>>,
}

#[derive(Debug, Default)]
struct Noted {
    by_key: BTreeMap<String, String>,
    bytes: usize,
}

impl AuditAnnotations {
    /// Adds a note. What was said first under a key stays: a write that is tried again is asked about
    /// again.
    pub fn add(&self, key: impl Into<String>, value: impl Into<String>) {
        let (key, value) = (key.into(), value.into());
        let mut noted = self.lock();
        let bytes = noted.bytes + key.len() + value.len();
        if bytes <= MAX_BYTES && !noted.by_key.contains_key(&key) {
            noted.by_key.insert(key, value);
            noted.bytes = bytes;
        }
    }

    /// All notes so far, by key.
    pub fn all(&self) -> BTreeMap<String, String> {
        self.lock().by_key.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_under_a_key_stays() {
        let annotations = AuditAnnotations::default();
        let same = annotations.clone();
        annotations.add("a", "1");
        same.add("a", "2");
        same.add("b", "3");
        assert_eq!(
            annotations.all().into_iter().collect::<Vec<_>>(),
            [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "3".to_owned())]
        );
    }

    #[test]
    fn what_is_too_much_is_dropped() {
        let annotations = AuditAnnotations::default();
        annotations.add("large", "x".repeat(MAX_BYTES));
        annotations.add("small", "x");
        assert_eq!(annotations.all().into_keys().collect::<Vec<_>>(), ["small"]);
    }
}
