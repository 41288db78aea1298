//! Objects that every other write looks at, kept as trees.
//!
//! Admission asks for the namespace, the quotas, the service account… of each write, and they
//! rarely change. Trees are found by the bytes they were made from, so none can be out of date, and
//! clusters with the same object share it.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use coracle_store::Entry;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::error::Result;
use crate::keys;
use crate::kind::Kind;
use crate::lifecycle::{ListOptions, tree};

/// How many bytes of JSON may be kept as trees in one generation. A tree takes about ten times as
/// much memory, and there are two generations.
const GENERATION_BYTES: usize = 128 << 10;

/// Larger objects are parsed each time: they would drive out all others.
const LARGEST_BYTES: usize = GENERATION_BYTES / 8;

/// The trees. Those that nobody asked for while a whole generation was filled are forgotten.
#[derive(Default)]
pub(crate) struct Parsed {
    generations: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    young: HashMap<u32, (Entry, Arc<Value>)>,
    young_bytes: usize,
    old: HashMap<u32, (Entry, Arc<Value>)>,
}

impl Parsed {
    fn tree(&self, entry: &Entry) -> Result<Arc<Value>> {
        let bytes = entry.value_bytes();
        if bytes.len() > LARGEST_BYTES {
            return tree(entry).map(Arc::new);
        }
        let hash = crc32fast::hash(bytes);
        if let Some(known) = self.lock().find(hash, bytes) {
            return Ok(known);
        }
        let made = Arc::new(tree(entry)?);
        self.lock().keep(hash, entry.clone(), made.clone());
        Ok(made)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Generations> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn find(&mut self, hash: u32, bytes: &[u8]) -> Option<Arc<Value>> {
        if let Some((entry, tree)) = self.young.get(&hash) {
            return (entry.value_bytes() == bytes).then(|| tree.clone());
        }
        let (entry, tree) = self.old.get(&hash).filter(|(entry, _)| entry.value_bytes() == bytes)?.clone();
        self.keep(hash, entry, tree.clone());
        Some(tree)
    }

    fn keep(&mut self, hash: u32, entry: Entry, tree: Arc<Value>) {
        let size = entry.value_bytes().len();
        if self.young_bytes + size > GENERATION_BYTES {
            self.old = mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += size;
        if let Some((replaced, _)) = self.young.insert(hash, (entry, tree)) {
            self.young_bytes -= replaced.value_bytes().len();
        }
    }
}

impl Cluster {
    /// An object as a tree that others look at too, if there is one.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn find(&self, kind: &dyn Kind, namespace: &str, name: &str) -> Result<Option<Arc<Value>>> {
        let key = keys::key(kind.declaration(), namespace, name);
        match self.store.get(&key).await?.entry {
            Some(entry) => self.parsed().tree(&entry).map(Some),
            None => Ok(None),
        }
    }

    /// All objects of a kind, in one namespace or in all, in the order of their names, as trees that
    /// others look at too.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn find_all(&self, kind: &dyn Kind, namespace: &str) -> Result<Vec<Arc<Value>>> {
        let page = self.list(kind, namespace, &ListOptions::default()).await?;
        page.entries.iter().map(|entry| self.parsed().tree(entry)).collect()
    }
}

#[cfg(test)]
mod tests {
    use coracle_store::{EntryParts, Revision};

    use super::*;

    fn entry(json: &str) -> Entry {
        Entry::from_parts(&EntryParts {
            key: "k".into(),
            value: json.to_owned().into(),
            stamp: None,
            create_revision: Revision::new(1),
            mod_revision: Revision::new(1),
            version: 1,
            expires_at: None,
        })
    }

    #[test]
    fn the_same_bytes_are_one_tree_and_others_another() {
        let parsed = Parsed::default();
        let first = parsed.tree(&entry("{\"a\":1}")).unwrap();
        assert!(Arc::ptr_eq(&first, &parsed.tree(&entry("{\"a\":1}")).unwrap()));
        assert_eq!(parsed.tree(&entry("{\"a\":2}")).unwrap()["a"], 2);
        assert!(parsed.tree(&entry("{")).is_err());
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_is_bounded() {
        let parsed = Parsed::default();
        let favourite = parsed.tree(&entry("{}")).unwrap();
        let padding = "x".repeat(LARGEST_BYTES / 2);
        for number in 0..200 {
            parsed.tree(&entry(&format!("{{\"{number}\":\"{padding}\"}}"))).unwrap();
            assert!(Arc::ptr_eq(&favourite, &parsed.tree(&entry("{}")).unwrap()));
        }
        let generations = parsed.lock();
        assert!(generations.young.len() + generations.old.len() <= 2 * GENERATION_BYTES / padding.len());
        assert!(generations.young_bytes <= GENERATION_BYTES);
    }

    #[test]
    fn large_objects_are_not_kept() {
        let parsed = Parsed::default();
        let large = entry(&format!("{{\"a\":\"{}\"}}", "x".repeat(LARGEST_BYTES)));
        let first = parsed.tree(&large).unwrap();
        assert!(!Arc::ptr_eq(&first, &parsed.tree(&large).unwrap()));
    }
}
