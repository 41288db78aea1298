//! A cache of one value for each cluster, with eviction of the least recently used one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Clusters with a value. The roles and bindings of a cluster take some hundred kilobytes, the objects that nodes need
/// about one kilobyte for each pod, the flow control objects twenty. Above this number the least recently used cluster
/// loses its value, and its next request builds it again.
const MAX_CLUSTERS: usize = 512;

/// Values by cluster id.
pub(crate) struct ClusterLru<V> {
    clusters: Mutex<Clusters<V>>,
}

struct Clusters<V> {
    by_id: HashMap<Box<str>, Entry<V>>,
    /// Counts calls of [`ClusterLru::get`].
    clock: u64,
}

struct Entry<V> {
    value: Arc<V>,
    last_used: u64,
}

impl<V> Default for ClusterLru<V> {
    fn default() -> Self {
        Self { clusters: Mutex::new(Clusters { by_id: HashMap::new(), clock: 0 }) }
    }
}

impl<V> ClusterLru<V> {
    /// Returns the value of a cluster; calls `make` if there is none.
    pub(crate) fn get(&self, id: &str, make: impl FnOnce() -> V) -> Arc<V> {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        clusters.clock += 1;
        let now = clusters.clock;
        if let Some(entry) = clusters.by_id.get_mut(id) {
            entry.last_used = now;
            return entry.value.clone();
        }
        let evicted = if clusters.by_id.len() >= MAX_CLUSTERS { clusters.evict() } else { None };
        let value = Arc::new(make());
        clusters.by_id.insert(id.into(), Entry { value: value.clone(), last_used: now });
        drop(clusters);
        // Its watches of the store end outside of the lock.
        drop(evicted);
        value
    }

    /// Number of clusters with a value.
    pub(crate) fn len(&self) -> usize {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner).by_id.len()
    }

    pub(crate) fn forget(&self, id: &str) {
        let removed = self.clusters.lock().unwrap_or_else(PoisonError::into_inner).by_id.remove(id);
        drop(removed);
    }
}

impl<V> Clusters<V> {
    /// Removes the value of the least recently used cluster.
    fn evict(&mut self) -> Option<Entry<V>> {
        let oldest = self.by_id.iter().min_by_key(|(_, entry)| entry.last_used);
        let id = oldest.map(|(id, _)| id.clone())?;
        self.by_id.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_lru_evicts_the_cluster_used_longest_ago() {
        let lru = ClusterLru::<()>::default();
        let get = |id: &str| lru.get(id, || ());
        let favourite = get("favourite");
        for number in 0..2 * MAX_CLUSTERS {
            let other = get(&number.to_string());
            assert!(Arc::ptr_eq(&other, &get(&number.to_string())));
            assert!(Arc::ptr_eq(&favourite, &get("favourite")));
        }
        let clusters = lru.clusters.lock().unwrap();
        assert_eq!(clusters.by_id.len(), MAX_CLUSTERS);
        assert!(!clusters.by_id.contains_key("0"));
    }

    #[test]
    fn forgotten_cluster_gets_a_new_value() {
        let lru = ClusterLru::<()>::default();
        let first = lru.get("a", || ());
        lru.forget("a");
        lru.forget("unknown");
        assert!(!Arc::ptr_eq(&first, &lru.get("a", || ())));
    }
}
