//! Number and size of the objects of a cluster, by resource, for estimating lists.
//!
//! Lists measure them, creations and deletions correct the number in between. Nothing is read from the store for
//! it, so a resource that no request has listed yet is unknown.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Resources of one cluster that are measured. Each takes some 100 bytes; lists of further ones take one seat.
const MAX_RESOURCES: usize = 2048;

#[derive(Default)]
pub(super) struct ObjectStats {
    /// By the hash of group and resource: a collision makes an estimate wrong and nothing else.
    resources: RwLock<HashMap<u64, Arc<ResourceStats>>>,
    hasher: RandomState,
}

struct ResourceStats {
    group: Box<str>,
    resource: Box<str>,
    objects: AtomicU64,
    average_bytes: AtomicU64,
}

/// The objects of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredObjects {
    pub(super) objects: u64,
    /// Of one object, as it is stored.
    pub(super) average_bytes: u64,
}

/// The objects that a list has found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// All objects of the list, also those after the page.
    pub(super) objects: u64,
    /// Objects that are returned, and their stored size.
    pub(super) seen: u64,
    pub(super) bytes: u64,
    /// True if the resource has no other objects.
    pub(super) is_all: bool,
}

impl ResourceStats {
    fn stored(&self) -> StoredObjects {
        StoredObjects {
            objects: self.objects.load(Ordering::Relaxed),
            average_bytes: self.average_bytes.load(Ordering::Relaxed),
        }
    }
}

impl ObjectStats {
    /// The objects of a resource. None if it was not listed yet.
    pub(super) fn get(&self, group: &str, resource: &str) -> Option<StoredObjects> {
        self.find(group, resource).map(|stats| stats.stored())
    }

    /// Notes what a list has found.
    pub(super) fn note_list(&self, group: &str, resource: &str, found: Found) {
        let Found { objects, seen, bytes, is_all } = found;
        let Some(stats) = self.find(group, resource).or_else(|| self.add(group, resource)) else { return };
        if is_all {
            stats.objects.store(objects, Ordering::Relaxed);
        } else {
            stats.objects.fetch_max(objects, Ordering::Relaxed);
        }
        if let Some(average) = bytes.checked_div(seen) {
            stats.average_bytes.store(average, Ordering::Relaxed);
        }
    }

    /// Notes that an object was created or deleted.
    pub(super) fn note_change(&self, group: &str, resource: &str, is_created: bool) {
        let Some(stats) = self.find(group, resource) else { return };
        let change = |objects: u64| if is_created { objects + 1 } else { objects.saturating_sub(1) };
        let _ =
            stats.objects.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |objects| Some(change(objects)));
    }

    /// Group, resource and objects of each resource that was listed, sorted.
    pub(super) fn report(&self) -> Vec<(String, String, StoredObjects)> {
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        let report = |stats: &Arc<ResourceStats>| {
            (stats.group.to_string(), stats.resource.to_string(), stats.stored())
        };
        let mut report: Vec<_> = resources.values().map(report).collect();
        drop(resources);
        report.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        report
    }

    fn find(&self, group: &str, resource: &str) -> Option<Arc<ResourceStats>> {
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        resources.get(&self.hasher.hash_one((group, resource))).cloned()
    }

    fn add(&self, group: &str, resource: &str) -> Option<Arc<ResourceStats>> {
        let mut resources = self.resources.write().unwrap_or_else(PoisonError::into_inner);
        if resources.len() >= MAX_RESOURCES {
            return None;
        }
        let stats = || {
            Arc::new(ResourceStats {
                group: group.into(),
                resource: resource.into(),
                objects: AtomicU64::new(0),
                average_bytes: AtomicU64::new(0),
            })
        };
        Some(resources.entry(self.hasher.hash_one((group, resource))).or_insert_with(stats).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(objects: u64, bytes: u64, is_all: bool) -> Found {
        Found { objects, seen: objects, bytes, is_all }
    }

    fn stored(objects: u64, average_bytes: u64) -> Option<StoredObjects> {
        Some(StoredObjects { objects, average_bytes })
    }

    #[test]
    fn lists_measure_and_changes_correct() {
        let stats = ObjectStats::default();
        stats.note_change("", "pods", true);
        assert_eq!(stats.get("", "pods"), None);
        stats.note_list("", "pods", found(3, 300, true));
        assert_eq!((stats.get("", "pods"), stats.get("apps", "pods")), (stored(3, 100), None));
        stats.note_change("", "pods", true);
        stats.note_change("", "pods", true);
        stats.note_change("", "pods", false);
        assert_eq!(stats.get("", "pods"), stored(4, 100));
        // The pods of one namespace: there are at least as many.
        stats.note_list("", "pods", found(2, 500, false));
        assert_eq!(stats.get("", "pods"), stored(4, 250));
        stats.note_list("", "pods", Found { objects: 900, ..found(100, 5000, true) });
        assert_eq!(stats.get("", "pods"), stored(900, 50));
        stats.note_list("", "pods", found(0, 0, true));
        assert_eq!(stats.get("", "pods"), stored(0, 50));
        stats.note_change("", "pods", false);
        assert_eq!(stats.report(), [(String::new(), "pods".to_owned(), stored(0, 50).unwrap())]);
    }

    #[test]
    fn resources_beyond_the_limit_are_not_measured() {
        let stats = ObjectStats::default();
        for number in 0..=MAX_RESOURCES {
            stats.note_list("g", &number.to_string(), found(1, 1, true));
        }
        assert_eq!(stats.report().len(), MAX_RESOURCES);
    }
}
