//! Cache of parsed objects, and of values derived from them, for objects that many writes read.
//!
//! Admission reads the namespace, quotas, policies… for each write, and they rarely change. The cache is keyed by the
//! bytes of the object, so an entry is never stale, and clusters with the same object share it.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_base::deep_stack;
use coracle_meta::object::Meta;
use coracle_store::{At, Entry, RangeRequest};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::error::Result;
use crate::keys;
use crate::kind::Kind;
use crate::lifecycle::{read, tree};
use crate::scan;

/// Size of one generation of parsed objects, in bytes of JSON. A parsed tree takes about ten times as much memory,
/// and there are two generations.
const TREES_BYTES: usize = 128 << 10;

/// Objects larger than this fraction of a generation are not cached: they would evict all others.
const LARGEST_PART: usize = 8;

/// A cache of values derived from objects, by the objects' bytes. Entries that are not used while a whole generation
/// fills up are evicted.
pub struct ParseCache<T> {
    generation_bytes: usize,
    generations: Mutex<Generations<T>>,
}

struct Generations<T> {
    young: HashMap<u32, (Entry, Arc<T>)>,
    young_bytes: usize,
    old: HashMap<u32, (Entry, Arc<T>)>,
}

impl<T> ParseCache<T> {
    /// An empty cache for objects of up to twice so many bytes of JSON.
    pub fn new(generation_bytes: usize) -> Self {
        Self { generation_bytes, generations: Mutex::default() }
    }

    fn get(&self, entry: &Entry, make: impl FnOnce(&Entry) -> Result<T>) -> Result<Arc<T>> {
        if entry.value_len() > self.generation_bytes / LARGEST_PART {
            return make(entry).map(Arc::new);
        }
        let bytes = entry.value_bytes();
        let hash = crc32fast::hash(&bytes);
        if let Some(known) = self.lock().find(hash, &bytes, self.generation_bytes) {
            return Ok(known);
        }
        let value = Arc::new(make(entry)?);
        self.lock().keep(hash, entry.clone(), value.clone(), self.generation_bytes);
        Ok(value)
    }

    fn lock(&self) -> MutexGuard<'_, Generations<T>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops the cached objects on the deep stack, because the last owner may be a thread of the embedding program.
impl<T> Drop for ParseCache<T> {
    fn drop(&mut self) {
        let generations = self.generations.get_mut().unwrap_or_else(PoisonError::into_inner);
        deep_stack::run(|| *generations = Generations::default());
    }
}

impl<T> Default for Generations<T> {
    fn default() -> Self {
        Self { young: HashMap::new(), young_bytes: 0, old: HashMap::new() }
    }
}

impl<T> Generations<T> {
    fn find(&mut self, hash: u32, bytes: &[u8], limit: usize) -> Option<Arc<T>> {
        if let Some((entry, value)) = self.young.get(&hash) {
            return (*entry.value_bytes() == *bytes).then(|| value.clone());
        }
        let (entry, value) = self.old.get(&hash).filter(|(entry, _)| *entry.value_bytes() == *bytes)?.clone();
        self.keep(hash, entry, value.clone(), limit);
        Some(value)
    }

    fn keep(&mut self, hash: u32, entry: Entry, value: Arc<T>, limit: usize) {
        let size = entry.value_len();
        if self.young_bytes + size > limit {
            self.old = mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += size;
        if let Some((replaced, _)) = self.young.insert(hash, (entry, value)) {
            self.young_bytes -= replaced.value_len();
        }
    }
}

impl ParseCache<Value> {
    /// A cache of parsed objects.
    pub(crate) fn trees() -> Self {
        Self::new(TREES_BYTES)
    }
}

/// Reads for checks. Like the informers of kube-apiserver's admission plugins and authenticators, they read the state
/// in memory ([`At::Cached`]): it contains every write that this server has acknowledged, but may lack the latest
/// writes of other servers on the same etcd. A missing object is looked up in the store itself.
impl Cluster {
    /// The entry of a key.
    pub(crate) async fn cached_entry(&self, key: &str) -> Result<Option<Entry>> {
        match self.store.get_at(key, At::Cached).await?.entry {
            Some(entry) => Ok(Some(entry)),
            None => Ok(self.store.get(key).await?.entry),
        }
    }

    /// The entries of all objects of a kind, in one namespace or in all.
    async fn cached_entries(&self, kind: &dyn Kind, namespace: &str) -> Result<Vec<Entry>> {
        let prefix = keys::prefix(kind.declaration(), namespace);
        let request = RangeRequest { at: At::Cached, ..RangeRequest::prefix(prefix) };
        Ok(self.store.range(request).await?.entries)
    }

    /// The parsed object, shared with other readers; none if it does not exist.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn find(&self, kind: &dyn Kind, namespace: &str, name: &str) -> Result<Option<Arc<Value>>> {
        let key = keys::key(kind.declaration(), namespace, name);
        match self.cached_entry(&key).await? {
            Some(entry) => self.seen(kind, &entry).map(Some),
            None => Ok(None),
        }
    }

    /// The labels of an object, without parsing the rest; none if it does not exist. For kinds with too many objects
    /// to cache parsed ones.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn find_labels(
        &self,
        kind: &dyn Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Vec<(String, String)>>> {
        let key = keys::key(kind.declaration(), namespace, name);
        let Some(entry) = self.cached_entry(&key).await? else { return Ok(None) };
        let bytes = entry.value_bytes();
        if let Some(labels) = scan::labels(&bytes) {
            let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
            return Ok(Some(labels.into_iter().map(owned).collect()));
        }
        // The labels contain escapes, which only the full parser supports.
        let object = self.seen(kind, &entry)?;
        let labels = Meta::of(&object).labels().into_iter().flatten();
        Ok(Some(labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()))
    }

    /// All objects of a kind in one namespace or in all, parsed, shared with other readers, and sorted by name.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn find_all(&self, kind: &dyn Kind, namespace: &str) -> Result<Vec<Arc<Value>>> {
        let entries = self.cached_entries(kind, namespace).await?;
        entries.iter().map(|entry| self.seen(kind, entry)).collect()
    }

    pub(crate) fn seen(&self, kind: &dyn Kind, entry: &Entry) -> Result<Arc<Value>> {
        if kind.reads_as_stored(&entry.value_bytes(), entry.mod_revision()) {
            self.trees().get(entry, tree)
        } else {
            read(kind, entry).map(Arc::new)
        }
    }

    /// Values that `make` derives from all objects of a kind, sorted by name. `make` is called only for objects that
    /// are not in the cache.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn derive_all<T>(
        &self,
        kind: &dyn Kind,
        known: &ParseCache<T>,
        make: impl Fn(&Value) -> T,
    ) -> Result<Vec<Arc<T>>> {
        let entries = self.cached_entries(kind, "").await?;
        entries.iter().map(|entry| known.get(entry, |entry| Ok(make(&tree(entry)?)))).collect()
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
    fn objects_with_equal_bytes_share_a_tree() {
        let trees = ParseCache::trees();
        let first = trees.get(&entry("{\"a\":1}"), tree).unwrap();
        assert!(Arc::ptr_eq(&first, &trees.get(&entry("{\"a\":1}"), tree).unwrap()));
        assert_eq!(trees.get(&entry("{\"a\":2}"), tree).unwrap()["a"], 2);
        assert!(trees.get(&entry("{"), tree).is_err());
    }

    #[test]
    fn used_entries_are_kept_and_the_cache_is_bounded() {
        let trees = ParseCache::trees();
        let favourite = trees.get(&entry("{}"), tree).unwrap();
        let padding = "x".repeat(TREES_BYTES / LARGEST_PART / 2);
        for number in 0..200 {
            trees.get(&entry(&format!("{{\"{number}\":\"{padding}\"}}")), tree).unwrap();
            assert!(Arc::ptr_eq(&favourite, &trees.get(&entry("{}"), tree).unwrap()));
        }
        let generations = trees.lock();
        assert!(generations.young.len() + generations.old.len() <= 2 * TREES_BYTES / padding.len());
        assert!(generations.young_bytes <= TREES_BYTES);
    }

    #[test]
    fn large_objects_are_not_cached() {
        let trees = ParseCache::trees();
        let large = entry(&format!("{{\"a\":\"{}\"}}", "x".repeat(TREES_BYTES / LARGEST_PART)));
        let first = trees.get(&large, tree).unwrap();
        assert!(!Arc::ptr_eq(&first, &trees.get(&large, tree).unwrap()));
    }
}
