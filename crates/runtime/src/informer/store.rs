//! The cache of an informer: objects by key and by index.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::page::Listed;
use super::view::View;
use crate::key::{ClusterId, ObjectKey};

/// Returns the values under which an index holds an object.
pub type IndexFn<V> = fn(&V) -> Vec<String>;

/// A change of one object. Both `old` and `new` are set for a modification.
#[derive(Debug)]
pub struct Change<V> {
    /// Key of the object.
    pub key: ObjectKey,
    /// The object before the change; `None` if it was added.
    pub old: Option<Arc<V>>,
    /// The object after the change; `None` if it was deleted.
    pub new: Option<Arc<V>>,
}

impl<V> Clone for Change<V> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), old: self.old.clone(), new: self.new.clone() }
    }
}

/// A cache of objects. Clones share the same cache.
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
    /// Ordered, so that the objects of a cluster or namespace are adjacent. Bootstrap objects, which all clusters
    /// share, are under [`ClusterId::all_clusters`].
    by_key: BTreeMap<ObjectKey, Arc<V>>,
    /// Bootstrap objects that single clusters have deleted.
    hidden: HashSet<ObjectKey>,
    indexes: HashMap<&'static str, Index<V>>,
}

/// Objects with the same value.
type Matches<V> = BTreeMap<ObjectKey, Arc<V>>;

#[derive(Debug)]
struct Index<V> {
    values_of: IndexFn<V>,
    /// By cluster first, because equal values in two clusters are unrelated. Holds the objects, not their keys,
    /// because a set of a thousand pods is read whenever one of them changes.
    found: HashMap<ClusterId, HashMap<String, Matches<V>>>,
}

impl<V: View> Store<V> {
    pub(super) fn new() -> Self {
        let objects = Objects { by_key: BTreeMap::new(), hidden: HashSet::new(), indexes: HashMap::new() };
        Self { inner: Arc::new(RwLock::new(objects)) }
    }

    /// Returns an object of the cache.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        self.read().visible(key).cloned()
    }

    /// All objects of all clusters with objects of their own and of the default cluster, ordered by key.
    pub fn list(&self) -> Vec<Arc<V>> {
        let objects = self.read();
        objects
            .clusters()
            .iter()
            .flat_map(|cluster| objects.within(cluster, None))
            .map(|(_, one)| one)
            .collect()
    }

    /// All objects of a cluster, ordered by key.
    pub fn in_cluster(&self, cluster: &ClusterId) -> Vec<Arc<V>> {
        self.read().within(cluster, None).into_values().collect()
    }

    /// All objects of a namespace, ordered by name.
    pub fn in_namespace(&self, cluster: &ClusterId, namespace: &str) -> Vec<Arc<V>> {
        self.read().within(cluster, Some(namespace)).into_values().collect()
    }

    /// Keys of all objects that [`list`](Self::list) returns, in order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        let objects = self.read();
        objects.clusters().iter().flat_map(|cluster| objects.within(cluster, None).into_keys()).collect()
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.keys().len()
    }

    /// True if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.read().by_key.is_empty()
    }

    /// Adds an index under this name. An existing index of the same name stays as it is.
    pub fn add_index(&self, name: &'static str, values_of: IndexFn<V>) {
        let mut objects = self.write();
        if objects.indexes.contains_key(name) {
            return;
        }
        let mut index = Index { values_of, found: HashMap::new() };
        for (key, object) in &objects.by_key {
            index.insert(key, object);
        }
        objects.indexes.insert(name, index);
    }

    /// Objects of a cluster with this value in an index, ordered by key. Empty if there is no such index.
    pub fn by_index(&self, name: &'static str, cluster: &ClusterId, value: &str) -> Vec<Arc<V>> {
        let objects = self.read();
        let Some(index) = objects.indexes.get(name) else { return Vec::new() };
        let of = |cluster: &ClusterId| index.found.get(cluster)?.get(value);
        let mut found: Vec<_> = of(cluster).into_iter().flat_map(BTreeMap::values).cloned().collect();
        if let Some(shared) = of(ClusterId::all_clusters()) {
            let shared = shared.iter().filter(|(key, _)| !objects.is_overlaid(&key.in_cluster(cluster)));
            found.extend(shared.map(|(_, object)| Arc::clone(object)));
            found.sort_by(|one, other| namespace_and_name(&**one).cmp(&namespace_and_name(&**other)));
        }
        found
    }

    /// Number of the cluster's own objects with this value in an index.
    pub fn count_by_index(&self, name: &'static str, cluster: &ClusterId, value: &str) -> usize {
        let objects = self.read();
        let found = objects.indexes.get(name).and_then(|index| index.found.get(cluster)?.get(value));
        found.map_or(0, BTreeMap::len)
    }

    /// Stores an object and returns the change. The same resource version again is no change.
    pub(super) fn put(&self, key: ObjectKey, object: V) -> Option<Change<V>> {
        self.write().put(key, object)
    }

    /// Removes an object.
    pub(super) fn remove(&self, key: &ObjectKey) -> Option<Change<V>> {
        self.write().remove(key)
    }

    /// Removes a bootstrap object that was deleted with its cluster, which no longer hides it.
    pub(super) fn remove_with_cluster(&self, key: &ObjectKey) -> Option<Change<V>> {
        let mut objects = self.write();
        let change = if objects.by_key.contains_key(key) { objects.remove(key) } else { None };
        objects.hidden.remove(key);
        change
    }

    /// Replaces the contents by a complete list, and returns the changes.
    pub(super) fn replace(&self, all: Listed<V>) -> Vec<Change<V>> {
        let mut objects = self.write();
        let listed: HashSet<&ObjectKey> = all.objects.iter().map(|(key, _)| key).collect();
        let gone: Vec<_> = objects.by_key.keys().filter(|key| !listed.contains(key)).cloned().collect();
        let mut changes: Vec<_> = gone.iter().filter_map(|key| objects.remove(key)).collect();
        objects.hidden = all.hidden.into_iter().collect();
        changes.extend(all.objects.into_iter().filter_map(|(key, object)| objects.put(key, object)));
        changes
    }

    fn read(&self) -> RwLockReadGuard<'_, Objects<V>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Objects<V>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn namespace_and_name<V: View>(object: &V) -> (&str, &str) {
    let metadata = object.metadata();
    (&metadata.namespace, &metadata.name)
}

impl<V: View> Objects<V> {
    /// The object that a cluster sees under a key: its own, or the bootstrap object.
    fn visible(&self, key: &ObjectKey) -> Option<&Arc<V>> {
        let shared = || self.by_key.get(&key.in_cluster(ClusterId::all_clusters()));
        self.by_key.get(key).or_else(|| shared().filter(|_| !self.hidden.contains(key)))
    }

    /// True if a cluster has its own object instead of the bootstrap object, or has deleted it.
    fn is_overlaid(&self, key: &ObjectKey) -> bool {
        self.by_key.contains_key(key) || self.hidden.contains(key)
    }

    /// Clusters with objects of their own, and the default cluster, which always exists.
    fn clusters(&self) -> BTreeSet<ClusterId> {
        let mut clusters = BTreeSet::from([ClusterId::default()]);
        let mut next = self.by_key.keys().next();
        while let Some(key) = next {
            clusters.insert(key.cluster().clone());
            // The smallest key after this cluster, to skip the cluster's other objects.
            let after_cluster =
                ObjectKey::cluster_wide(ClusterId::new(format!("{}\0", key.cluster().as_str())), "");
            next = self.by_key.range(after_cluster..).next().map(|(key, _)| key);
        }
        clusters.remove(ClusterId::all_clusters());
        clusters
    }

    /// The objects that a cluster sees, in one namespace or in all.
    fn within(&self, cluster: &ClusterId, namespace: Option<&str>) -> BTreeMap<ObjectKey, Arc<V>> {
        let own = self.stored_within(cluster, namespace).map(|(key, object)| (key.clone(), object.clone()));
        let mut found: BTreeMap<_, _> = own.collect();
        let shared = self.stored_within(ClusterId::all_clusters(), namespace);
        for (key, object) in shared.map(|(key, object)| (key.in_cluster(cluster), object)) {
            if !self.is_overlaid(&key) {
                found.insert(key, object.clone());
            }
        }
        found
    }

    fn stored_within<'a>(
        &'a self,
        cluster: &'a ClusterId,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<V>)> {
        let first = ObjectKey::namespaced(cluster.clone(), namespace.unwrap_or_default(), "");
        let inside = move |key: &ObjectKey| {
            key.cluster() == cluster && namespace.is_none_or(|namespace| key.namespace() == namespace)
        };
        self.by_key.range(first..).take_while(move |(key, _)| inside(key))
    }

    fn put(&mut self, key: ObjectKey, object: V) -> Option<Change<V>> {
        let version = |object: &V| object.metadata().resource_version.clone();
        if self.by_key.get(&key).is_some_and(|known| version(known) == version(&object)) {
            return None;
        }
        let before = self.visible(&key).cloned();
        self.hidden.remove(&key);
        let new = Arc::new(object);
        let old = self.by_key.insert(key.clone(), Arc::clone(&new));
        for index in self.indexes.values_mut() {
            if let Some(old) = &old {
                index.remove(&key, old);
            }
            index.insert(&key, &new);
        }
        Some(Change { key: reported_key(key), old: before, new: Some(new) })
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Change<V>> {
        let old = self.visible(key)?.clone();
        if let Some(own) = self.by_key.remove(key) {
            for index in self.indexes.values_mut() {
                index.remove(key, &own);
            }
        }
        if self.by_key.contains_key(&key.in_cluster(ClusterId::all_clusters())) {
            self.hidden.insert(key.clone());
        }
        Some(Change { key: reported_key(key.clone()), old: Some(old), new: None })
    }
}

/// Changes of bootstrap objects are reported for the default cluster. In the other clusters controllers act on
/// bootstrap objects because they exist, not because they change.
fn reported_key(key: ObjectKey) -> ObjectKey {
    if key.cluster() == ClusterId::all_clusters() { key.in_cluster(&ClusterId::default()) } else { key }
}

impl<V> Index<V> {
    fn insert(&mut self, key: &ObjectKey, object: &Arc<V>) {
        for value in (self.values_of)(object) {
            let values = self.found.entry(key.cluster().clone()).or_default();
            values.entry(value).or_default().insert(key.clone(), Arc::clone(object));
        }
    }

    fn remove(&mut self, key: &ObjectKey, object: &V) {
        let Some(values) = self.found.get_mut(key.cluster()) else { return };
        for value in (self.values_of)(object) {
            if let Some(found) = values.get_mut(&value) {
                found.remove(key);
                if found.is_empty() {
                    values.remove(&value);
                }
            }
        }
        if values.is_empty() {
            self.found.remove(key.cluster());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::key_of;
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

    fn key(cluster: &ClusterId, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey::namespaced(cluster.clone(), namespace, name)
    }

    fn listed(cluster: &ClusterId, objects: Vec<MetadataOnly>) -> Listed<MetadataOnly> {
        let objects = objects.into_iter().map(|object| (key_of(cluster, &object), object)).collect();
        Listed { objects, hidden: Vec::new() }
    }

    fn put(store: &Store<MetadataOnly>, cluster: &ClusterId, object: MetadataOnly) {
        store.put(key_of(cluster, &object), object);
    }

    fn by_namespace(object: &MetadataOnly) -> Vec<String> {
        vec![object.metadata.namespace.to_string()]
    }

    fn names(objects: &[Arc<MetadataOnly>]) -> Vec<&str> {
        objects.iter().map(|object| &*object.metadata.name).collect()
    }

    #[test]
    fn replace_returns_changes_since_the_last_list() {
        let (store, cluster) = (Store::new(), ClusterId::default());
        assert_eq!(
            store.replace(listed(&cluster, vec![object("a", "x", "1"), object("a", "y", "2")])).len(),
            2
        );
        let changes = store.replace(listed(&cluster, vec![object("a", "y", "3"), object("b", "z", "4")]));
        let mut reported: Vec<_> = changes
            .iter()
            .map(|change| (change.key.to_string(), change.old.is_some(), change.new.is_some()))
            .collect();
        reported.sort();
        let expected = [("a/x", true, false), ("a/y", true, true), ("b/z", false, true)];
        assert_eq!(reported, expected.map(|(key, old, new)| (key.to_owned(), old, new)));
        assert!(
            store.replace(listed(&cluster, vec![object("a", "y", "3"), object("b", "z", "4")])).is_empty()
        );
    }

    #[test]
    fn index_tracks_changed_objects() {
        let (store, cluster) = (Store::new(), ClusterId::default());
        put(&store, &cluster, object("a", "x", "1"));
        store.add_index("namespace", by_namespace);
        put(&store, &cluster, object("a", "w", "2"));
        put(&store, &cluster, object("b", "y", "3"));
        assert_eq!(names(&store.by_index("namespace", &cluster, "a")), ["w", "x"]);
        assert_eq!(store.count_by_index("namespace", &cluster, "a"), 2);
        assert_eq!(store.count_by_index("namespace", &cluster, "c"), 0);
        put(&store, &cluster, object("a", "x", "4"));
        let versions: Vec<_> = store
            .by_index("namespace", &cluster, "a")
            .iter()
            .map(|object| object.metadata.resource_version.to_string())
            .collect();
        assert_eq!(versions, ["2", "4"], "the current versions");
        store.remove(&ObjectKey::namespaced(cluster.clone(), "a", "w"));
        assert_eq!(names(&store.by_index("namespace", &cluster, "a")), ["x"]);
        assert!(store.by_index("namespace", &cluster, "c").is_empty());
        assert!(store.by_index("unknown", &cluster, "a").is_empty());
    }

    #[test]
    fn same_key_in_two_clusters_is_independent() {
        let (store, blue, green) = (Store::new(), ClusterId::new("blue"), ClusterId::new("green"));
        put(&store, &blue, object("a", "x", "1"));
        put(&store, &green, object("a", "x", "1"));
        assert_eq!(store.len(), 2);
        put(&store, &blue, object("b", "y", "2"));
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

    #[test]
    fn bootstrap_objects_are_visible_until_overlaid_or_hidden() {
        let (store, all, blue) = (Store::new(), ClusterId::all_clusters().clone(), ClusterId::new("blue"));
        let shared = vec![object("", "default", "1"), object("", "system", "1")];
        let changes = store.replace(listed(&all, shared.clone()));
        let reported: Vec<_> = changes.iter().map(|change| change.key.to_string()).collect();
        assert_eq!(reported, ["default", "system"], "in the default cluster");
        store.add_index("namespace", by_namespace);
        assert_eq!(names(&store.in_cluster(&blue)), ["default", "system"]);
        assert_eq!(store.by_index("namespace", &blue, "").len(), 2);

        let change = store.put(key(&blue, "", "system"), object("", "system", "5")).unwrap();
        assert_eq!(&*change.old.unwrap().metadata.resource_version, "1");
        assert_eq!(&*store.get(&key(&blue, "", "system")).unwrap().metadata.resource_version, "5");
        let change = store.remove(&key(&blue, "", "default")).unwrap();
        assert!(change.old.is_some() && change.new.is_none());
        assert!(store.get(&key(&blue, "", "default")).is_none());
        assert_eq!(names(&store.in_cluster(&blue)), ["system"]);
        assert_eq!(names(&store.by_index("namespace", &blue, "")), ["system"]);
        assert_eq!(names(&store.in_cluster(&ClusterId::new("green"))), ["default", "system"]);
        assert_eq!(store.keys().len(), 3, "two of the default cluster, one of blue");

        assert!(store.remove_with_cluster(&key(&blue, "", "system")).is_some());
        assert!(store.remove_with_cluster(&key(&blue, "", "default")).is_none(), "it was hidden");
        assert_eq!(names(&store.in_cluster(&blue)), ["default", "system"], "as in a new cluster");
        assert!(store.read().hidden.is_empty());

        let mut again = listed(&all, shared);
        again.hidden.push(key(&blue, "", "system"));
        store.replace(again);
        assert_eq!(names(&store.in_cluster(&blue)), ["default"]);
    }
}
