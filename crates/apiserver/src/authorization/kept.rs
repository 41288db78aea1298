//! The clusters of which something is kept in memory: those asked about last.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::followed::{Arranged, Followed};

/// How many clusters are kept. Roles and bindings take some hundred kilobytes with those that every cluster
/// has, and what nodes need about one for each pod; the one that was not asked about for longest is read again when
/// somebody does.
const MAX_CLUSTERS: usize = 512;

/// Clusters by their id.
pub(super) struct Kept<I> {
    clusters: Mutex<Clusters<I>>,
}

struct Clusters<I> {
    by_id: HashMap<Box<str>, Entry<I>>,
    /// Counts questions.
    clock: u64,
}

struct Entry<I> {
    followed: Arc<Followed<I>>,
    last_asked: u64,
}

impl<I> Default for Kept<I> {
    fn default() -> Self {
        Self { clusters: Mutex::new(Clusters { by_id: HashMap::new(), clock: 0 }) }
    }
}

impl<I: Arranged> Kept<I> {
    /// What is known of a cluster, which may be nothing yet.
    pub(super) fn get(&self, id: &str) -> Arc<Followed<I>> {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        clusters.clock += 1;
        let now = clusters.clock;
        if let Some(entry) = clusters.by_id.get_mut(id) {
            entry.last_asked = now;
            return entry.followed.clone();
        }
        if clusters.by_id.len() >= MAX_CLUSTERS {
            clusters.drop_oldest();
        }
        let followed = Arc::new(Followed::default());
        clusters.by_id.insert(id.into(), Entry { followed: followed.clone(), last_asked: now });
        followed
    }
}

impl<I> Clusters<I> {
    fn drop_oldest(&mut self) {
        let oldest = self.by_id.iter().min_by_key(|(_, entry)| entry.last_asked);
        if let Some(id) = oldest.map(|(id, _)| id.clone()) {
            self.by_id.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::rbac::Index;

    #[test]
    fn those_asked_about_last_are_kept() {
        let kept = Kept::<Index>::default();
        let favourite = kept.get("favourite");
        for number in 0..2 * MAX_CLUSTERS {
            let other = kept.get(&number.to_string());
            assert!(Arc::ptr_eq(&other, &kept.get(&number.to_string())));
            assert!(Arc::ptr_eq(&favourite, &kept.get("favourite")));
        }
        let clusters = kept.clusters.lock().unwrap();
        assert_eq!(clusters.by_id.len(), MAX_CLUSTERS);
        assert!(!clusters.by_id.contains_key("0"));
    }
}
