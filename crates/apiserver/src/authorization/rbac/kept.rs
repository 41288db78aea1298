//! The clusters of which roles and bindings are kept in memory: those asked about last.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::followed::Followed;

/// How many clusters are kept. Each takes what its roles and bindings take, some hundred kilobytes with
/// those that every cluster has; the one that was not asked about for longest is read again when
/// somebody does.
const MAX_CLUSTERS: usize = 512;

/// Clusters by their id.
#[derive(Default)]
pub(super) struct Kept {
    clusters: Mutex<Clusters>,
}

#[derive(Default)]
struct Clusters {
    by_id: HashMap<Box<str>, Entry>,
    /// Counts questions.
    clock: u64,
}

struct Entry {
    followed: Arc<Followed>,
    last_asked: u64,
}

impl Kept {
    /// What is known of a cluster, which may be nothing yet.
    pub(super) fn get(&self, id: &str) -> Arc<Followed> {
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

impl Clusters {
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

    #[test]
    fn those_asked_about_last_are_kept() {
        let kept = Kept::default();
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
