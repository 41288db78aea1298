//! Audit annotations of a request.
//!
//! A caller that audits requests passes [`AuditAnnotations`] with each, and reads afterwards what admission added. A
//! request without them is not audited, and no annotations are computed for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limit for keys and values of one request, in bytes. One annotation has at most 10 KiB, so a hundred fit;
/// annotations beyond the limit are dropped.
const MAX_BYTES: usize = 1 << 20;

/// Annotations of one request, by key. Clones share the same annotations.
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
    /// Adds an annotation unless the key exists: a retried write runs admission again, and the first value stays.
    pub fn add(&self, key: impl Into<String>, value: impl Into<String>) {
        let (key, value) = (key.into(), value.into());
        let mut noted = self.lock();
        let bytes = noted.bytes + key.len() + value.len();
        if bytes <= MAX_BYTES && !noted.by_key.contains_key(&key) {
            noted.by_key.insert(key, value);
            noted.bytes = bytes;
        }
    }

    /// All annotations so far, by key.
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
    fn first_value_of_a_key_is_kept() {
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
    fn annotations_beyond_the_limit_are_dropped() {
        let annotations = AuditAnnotations::default();
        annotations.add("large", "x".repeat(MAX_BYTES));
        annotations.add("small", "x");
        assert_eq!(annotations.all().into_keys().collect::<Vec<_>>(), ["small"]);
    }
}
