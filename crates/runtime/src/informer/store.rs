//! The objects an informer knows, by key and by whatever else they are to be found by.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::view::View;
use crate::key::{ClusterId, ObjectKey};

/// Under which values an object is to be found in an index.
pub type IndexFn<V> = fn(&V) -> Vec<String>;

/// What happened to one object. Both sides are there if it was known before and still is.
#[derive(Clone, Debug)]
pub struct Change<V> {
    /// Which object.
    pub key: ObjectKey,
    /// What was known of it.
    pub old: Option<Arc<V>>,
    /// What is known now; none if it is gone.
    pub new: Option<Arc<V>>,
}

/// A shared view of many objects. Clones are the same store.
#[derive(Debug)]
pub struct Store<V> {
    inner: Arc<RwLock<Objects<V>>>,
}

impl<V> Clone for Store<V> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

#[derive(Debug)]
struct Objects<V> {
    /// In order, so that those of a cluster or of a namespace are found together.
    by_key: BTreeMap<ObjectKey, Arc<V>>,
    indexes: HashMap<&'static str, Index<V>>,
}

#[derive(Debug)]
struct Index<V> {
    values_of: IndexFn<V>,
    /// By cluster first: what has the same value in two clusters has nothing to do with each other.
    keys: HashMap<ClusterId, HashMap<String, BTreeSet<ObjectKey>>>,
}

impl<V: View> Store<V> {
    pub(super) fn new() -> Self {
        let objects = Objects { by_key: BTreeMap::new(), indexes: HashMap::new() };
        Self { inner: Arc::new(RwLock::new(objects)) }
    }

    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        self.read().by_key.get(key).cloned()
    }

    /// Every object of every cluster, in the order of their keys.
    pub fn list(&self) -> Vec<Arc<V>> {
        self.read().by_key.values().cloned().collect()
    }

    /// The objects of a cluster, in the order of their keys.
    pub fn in_cluster(&self, cluster: &ClusterId) -> Vec<Arc<V>> {
        let first = ObjectKey::cluster_wide(cluster.clone(), "");
        let objects = self.read();
        let from_there = objects.by_key.range(first..);
        from_there
            .take_while(|(key, _)| key.cluster() == cluster)
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    /// The objects in a namespace, in the order of their names.
    pub fn in_namespace(&self, cluster: &ClusterId, namespace: &str) -> Vec<Arc<V>> {
        let first = ObjectKey::namespaced(cluster.clone(), namespace, "");
        let objects = self.read();
        let inside = |key: &ObjectKey| key.cluster() == cluster && key.namespace() == namespace;
        let from_there = objects.by_key.range(first..);
        from_there.take_while(|(key, _)| inside(key)).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// The keys of all objects, in order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.read().by_key.keys().cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.read().by_key.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes objects findable by the values `values_of` gives. An index of that name that is there
    /// already stays as it is.
    pub fn add_index(&self, name: &'static str, values_of: IndexFn<V>) {
        let mut objects = self.write();
        if objects.indexes.contains_key(name) {
            return;
        }
        let mut index = Index { values_of, keys: HashMap::new() };
        for (key, object) in &objects.by_key {
            index.insert(key, object);
        }
        objects.indexes.insert(name, index);
    }

    /// The objects of a cluster that have this value in an index, in the order of their keys; none if there
    /// is no such index.
    pub fn by_index(&self, name: &'static str, cluster: &ClusterId, value: &str) -> Vec<Arc<V>> {
        let objects = self.read();
        let keys = objects.indexes.get(name).and_then(|index| index.keys.get(cluster)?.get(value));
        keys.into_iter().flatten().filter_map(|key| objects.by_key.get(key).cloned()).collect()
    }

    /// Notes what is known of one object now, and says what changed. The same version again is no change.
    pub(super) fn put(&self, cluster: &ClusterId, object: V) -> Option<Change<V>> {
        self.write().put(key_of(cluster, &object), object)
    }

    /// Notes that an object is gone.
    pub(super) fn remove(&self, key: &ObjectKey) -> Option<Change<V>> {
        self.write().remove(key)
    }

    /// Notes that these objects are all there is.
    pub(super) fn replace(&self, cluster: &ClusterId, all: Vec<V>) -> Vec<Change<V>> {
        let mut objects = self.write();
        let listed: HashSet<ObjectKey> = all.iter().map(|object| key_of(cluster, object)).collect();
        let gone: Vec<_> = objects.by_key.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        let mut changes: Vec<_> = gone.iter().filter_map(|key| objects.remove(key)).collect();
        changes.extend(all.into_iter().filter_map(|object| objects.put(key_of(cluster, &object), object)));
        changes
    }

    fn read(&self) -> RwLockReadGuard<'_, Objects<V>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Objects<V>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an object is known by.
pub(super) fn key_of<V: View>(cluster: &ClusterId, object: &V) -> ObjectKey {
    let metadata = object.metadata();
    ObjectKey::namespaced(cluster.clone(), &*metadata.namespace, &*metadata.name)
}

impl<V: View> Objects<V> {
    fn put(&mut self, key: ObjectKey, object: V) -> Option<Change<V>> {
        let version = |object: &V| object.metadata().resource_version.clone();
        if self.by_key.get(&key).is_some_and(|known| version(known) == version(&object)) {
            return None;
        }
        let new = Arc::new(object);
        let old = self.by_key.insert(key.clone(), Arc::clone(&new));
        for index in self.indexes.values_mut() {
            if let Some(old) = &old {
                index.remove(&key, old);
            }
            index.insert(&key, &new);
        }
        Some(Change { key, old, new: Some(new) })
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Change<V>> {
        let old = self.by_key.remove(key)?;
        for index in self.indexes.values_mut() {
            index.remove(key, &old);
        }
        Some(Change { key: key.clone(), old: Some(old), new: None })
    }
}

impl<V> Index<V> {
    fn insert(&mut self, key: &ObjectKey, object: &V) {
        for value in (self.values_of)(object) {
            let keys = self.keys.entry(key.cluster().clone()).or_default();
            keys.entry(value).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &ObjectKey, object: &V) {
        let Some(values) = self.keys.get_mut(key.cluster()) else { return };
        for value in (self.values_of)(object) {
            if let Some(keys) = values.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    values.remove(&value);
                }
            }
        }
        if values.is_empty() {
            self.keys.remove(key.cluster());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::{Metadata, MetadataOnly};
    use super::*;

    fn object(namespace: &str, name: &str, version: &str) -> MetadataOnly {
        let metadata = Metadata {
            name: name.into(),
            namespace: namespace.into(),
            resource_version: version.into(),
            ..Metadata::default()
        };
        MetadataOnly { metadata }
    }

    fn by_namespace(object: &MetadataOnly) -> Vec<String> {
        vec![object.metadata.namespace.to_string()]
    }

    fn names(objects: &[Arc<MetadataOnly>]) -> Vec<&str> {
        objects.iter().map(|object| &*object.metadata.name).collect()
    }

    #[test]
    fn a_list_says_what_changed_since_the_last_one() {
        let (store, cluster) = (Store::new(), ClusterId::default());
        assert_eq!(store.replace(&cluster, vec![object("a", "x", "1"), object("a", "y", "2")]).len(), 2);
        let changes = store.replace(&cluster, vec![object("a", "y", "3"), object("b", "z", "4")]);
        let mut told: Vec<_> = changes
            .iter()
            .map(|change| (change.key.to_string(), change.old.is_some(), change.new.is_some()))
            .collect();
        told.sort();
        let expected = [("a/x", true, false), ("a/y", true, true), ("b/z", false, true)];
        assert_eq!(told, expected.map(|(key, old, new)| (key.to_owned(), old, new)));
        assert!(store.replace(&cluster, vec![object("a", "y", "3"), object("b", "z", "4")]).is_empty());
    }

    #[test]
    fn an_index_follows_its_objects() {
        let (store, cluster) = (Store::new(), ClusterId::default());
        store.put(&cluster, object("a", "x", "1"));
        store.add_index("namespace", by_namespace);
        store.put(&cluster, object("a", "w", "2"));
        store.put(&cluster, object("b", "y", "3"));
        assert_eq!(names(&store.by_index("namespace", &cluster, "a")), ["w", "x"]);
        store.put(&cluster, object("a", "x", "4"));
        store.remove(&ObjectKey::namespaced(cluster.clone(), "a", "w"));
        assert_eq!(names(&store.by_index("namespace", &cluster, "a")), ["x"]);
        assert!(store.by_index("namespace", &cluster, "c").is_empty());
        assert!(store.by_index("unknown", &cluster, "a").is_empty());
    }

    #[test]
    fn clusters_do_not_meet() {
        let (store, blue, green) = (Store::new(), ClusterId::new("blue"), ClusterId::new("green"));
        store.put(&blue, object("a", "x", "1"));
        store.put(&green, object("a", "x", "1"));
        assert_eq!(store.len(), 2);
        store.put(&blue, object("b", "y", "2"));
        assert_eq!(names(&store.in_cluster(&blue)), ["x", "y"]);
        assert_eq!(names(&store.in_namespace(&blue, "b")), ["y"]);
        assert!(store.in_namespace(&green, "b").is_empty());
        store.add_index("namespace", by_namespace);
        assert_eq!(store.by_index("namespace", &green, "a").len(), 1);
        store.remove(&ObjectKey::namespaced(green.clone(), "a", "x"));
        assert!(store.by_index("namespace", &green, "a").is_empty());
        assert!(store.get(&ObjectKey::namespaced(blue, "a", "x")).is_some());
        assert!(!store.is_empty() && store.list().len() == 2);
    }
}
