//! The objects an informer knows, by key and by whatever else they are to be found by.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::page::Listed;
use super::view::View;
use crate::key::{ClusterId, ObjectKey};

/// Under which values an object is to be found in an index.
pub type IndexFn<V> = fn(&V) -> Vec<String>;

/// What happened to one object. Both sides are there if it was known before and still is.
#[derive(Debug)]
pub struct Change<V> {
    /// Which object.
    pub key: ObjectKey,
    /// What was known of it.
    pub old: Option<Arc<V>>,
    /// What is known now; none if it is gone.
    pub new: Option<Arc<V>>,
}

impl<V> Clone for Change<V> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), old: self.old.clone(), new: self.new.clone() }
    }
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
    /// In order, so that those of a cluster or of a namespace are found together. What all clusters begin
    /// with is in the cluster that stands for all.
    by_key: BTreeMap<ObjectKey, Arc<V>>,
    /// What clusters have deleted of what all begin with.
    hidden: HashSet<ObjectKey>,
    indexes: HashMap<&'static str, Index<V>>,
}

/// The objects that have one value.
type Found<V> = BTreeMap<ObjectKey, Arc<V>>;

#[derive(Debug)]
struct Index<V> {
    values_of: IndexFn<V>,
    /// By cluster first: what has the same value in two clusters has nothing to do with each other. The
    /// objects themselves, because a set of a thousand pods is asked for whenever one of them changes.
    found: HashMap<ClusterId, HashMap<String, Found<V>>>,
}

impl<V: View> Store<V> {
    pub(super) fn new() -> Self {
        let objects = Objects { by_key: BTreeMap::new(), hidden: HashSet::new(), indexes: HashMap::new() };
        Self { inner: Arc::new(RwLock::new(objects)) }
    }

    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        self.read().visible(key).cloned()
    }

    /// Every object of every cluster that has any, in the order of their keys.
    pub fn list(&self) -> Vec<Arc<V>> {
        let objects = self.read();
        objects
            .clusters()
            .iter()
            .flat_map(|cluster| objects.within(cluster, None))
            .map(|(_, one)| one)
            .collect()
    }

    /// The objects of a cluster, in the order of their keys.
    pub fn in_cluster(&self, cluster: &ClusterId) -> Vec<Arc<V>> {
        self.read().within(cluster, None).into_values().collect()
    }

    /// The objects in a namespace, in the order of their names.
    pub fn in_namespace(&self, cluster: &ClusterId, namespace: &str) -> Vec<Arc<V>> {
        self.read().within(cluster, Some(namespace)).into_values().collect()
    }

    /// The keys of all objects of every cluster that has any, in order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        let objects = self.read();
        objects.clusters().iter().flat_map(|cluster| objects.within(cluster, None).into_keys()).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.read().by_key.is_empty()
    }

    /// Makes objects findable by the values `values_of` gives. An index of that name that is there
    /// already stays as it is.
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

    /// The objects of a cluster that have this value in an index, in the order of their keys; none if there
    /// is no such index.
    pub fn by_index(&self, name: &'static str, cluster: &ClusterId, value: &str) -> Vec<Arc<V>> {
        let objects = self.read();
        let Some(index) = objects.indexes.get(name) else { return Vec::new() };
        let of = |cluster: &ClusterId| index.found.get(cluster)?.get(value);
        let mut found: Vec<_> = of(cluster).into_iter().flat_map(BTreeMap::values).cloned().collect();
        if let Some(shared) = of(ClusterId::all_clusters()) {
            let shared = shared.iter().filter(|(key, _)| !objects.is_overlaid(&key.in_cluster(cluster)));
            found.extend(shared.map(|(_, object)| Arc::clone(object)));
            found.sort_by(|one, other| place(&**one).cmp(&place(&**other)));
        }
        found
    }

    /// How many objects of a cluster have this value in an index.
    pub fn count_by_index(&self, name: &'static str, cluster: &ClusterId, value: &str) -> usize {
        let objects = self.read();
        let found = objects.indexes.get(name).and_then(|index| index.found.get(cluster)?.get(value));
        found.map_or(0, BTreeMap::len)
    }

    /// Notes what is known of one object now, and says what changed. The same version again is no change.
    pub(super) fn put(&self, key: ObjectKey, object: V) -> Option<Change<V>> {
        self.write().put(key, object)
    }

    /// Notes that an object is gone.
    pub(super) fn remove(&self, key: &ObjectKey) -> Option<Change<V>> {
        self.write().remove(key)
    }

    /// Notes that an object that all clusters begin with is gone with its cluster, and is hidden there no more.
    pub(super) fn remove_with_cluster(&self, key: &ObjectKey) -> Option<Change<V>> {
        let mut objects = self.write();
        let change = if objects.by_key.contains_key(key) { objects.remove(key) } else { None };
        objects.hidden.remove(key);
        change
    }

    /// Notes that these objects are all there is.
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

/// Where an object is in its cluster.
fn place<V: View>(object: &V) -> (&str, &str) {
    let metadata = object.metadata();
    (&metadata.namespace, &metadata.name)
}

impl<V: View> Objects<V> {
    /// What a cluster has under a key, be it its own or what all begin with.
    fn visible(&self, key: &ObjectKey) -> Option<&Arc<V>> {
        let shared = || self.by_key.get(&key.in_cluster(ClusterId::all_clusters()));
        self.by_key.get(key).or_else(|| shared().filter(|_| !self.hidden.contains(key)))
    }

    /// Whether a cluster does not see what all begin with, but something of its own or nothing.
    fn is_overlaid(&self, key: &ObjectKey) -> bool {
        self.by_key.contains_key(key) || self.hidden.contains(key)
    }

    /// All clusters that have something of their own, and the default one, which always is.
    fn clusters(&self) -> BTreeSet<ClusterId> {
        let mut clusters = BTreeSet::from([ClusterId::default()]);
        let mut next = self.by_key.keys().next();
        while let Some(key) = next {
            clusters.insert(key.cluster().clone());
            // The id that follows at once, so that not every object is looked at.
            let behind = ObjectKey::cluster_wide(ClusterId::new(format!("{}\0", key.cluster().as_str())), "");
            next = self.by_key.range(behind..).next().map(|(key, _)| key);
        }
        clusters.remove(ClusterId::all_clusters());
        clusters
    }

    /// What a cluster has, in one namespace or at all.
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
        Some(Change { key: told_as(key), old: before, new: Some(new) })
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
        Some(Change { key: told_as(key.clone()), old: Some(old), new: None })
    }
}

/// What every cluster begins with is told of as being in the default one: what there is to do about it in
/// the others follows from it being there, and not from news.
fn told_as(key: ObjectKey) -> ObjectKey {
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
    fn a_list_says_what_changed_since_the_last_one() {
        let (store, cluster) = (Store::new(), ClusterId::default());
        assert_eq!(
            store.replace(listed(&cluster, vec![object("a", "x", "1"), object("a", "y", "2")])).len(),
            2
        );
        let changes = store.replace(listed(&cluster, vec![object("a", "y", "3"), object("b", "z", "4")]));
        let mut told: Vec<_> = changes
            .iter()
            .map(|change| (change.key.to_string(), change.old.is_some(), change.new.is_some()))
            .collect();
        told.sort();
        let expected = [("a/x", true, false), ("a/y", true, true), ("b/z", false, true)];
        assert_eq!(told, expected.map(|(key, old, new)| (key.to_owned(), old, new)));
        assert!(
            store.replace(listed(&cluster, vec![object("a", "y", "3"), object("b", "z", "4")])).is_empty()
        );
    }

    #[test]
    fn an_index_follows_its_objects() {
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
        assert_eq!(versions, ["2", "4"], "as they are now");
        store.remove(&ObjectKey::namespaced(cluster.clone(), "a", "w"));
        assert_eq!(names(&store.by_index("namespace", &cluster, "a")), ["x"]);
        assert!(store.by_index("namespace", &cluster, "c").is_empty());
        assert!(store.by_index("unknown", &cluster, "a").is_empty());
    }

    #[test]
    fn clusters_do_not_meet() {
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
    fn what_all_clusters_begin_with_is_in_each_until_it_has_its_own() {
        let (store, all, blue) = (Store::new(), ClusterId::all_clusters().clone(), ClusterId::new("blue"));
        let shared = vec![object("", "default", "1"), object("", "system", "1")];
        let changes = store.replace(listed(&all, shared.clone()));
        let told: Vec<_> = changes.iter().map(|change| change.key.to_string()).collect();
        assert_eq!(told, ["default", "system"], "in the default cluster");
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
        assert_eq!(store.keys().len(), 3, "two of the default cluster, one of the blue");

        assert!(store.remove_with_cluster(&key(&blue, "", "system")).is_some());
        assert!(store.remove_with_cluster(&key(&blue, "", "default")).is_none(), "it was hidden");
        assert_eq!(names(&store.in_cluster(&blue)), ["default", "system"], "as in any new cluster");
        assert!(store.read().hidden.is_empty());

        let mut again = listed(&all, shared);
        again.hidden.push(key(&blue, "", "system"));
        store.replace(again);
        assert_eq!(names(&store.in_cluster(&blue)), ["default"]);
    }
}
