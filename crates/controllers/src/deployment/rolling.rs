//! A rollout that replaces a few pods at a time.

use std::sync::Arc;

use super::limits::{max_replicas, min_available};
use super::sets::{Sets, surely_available};
use crate::view::{Deployment, ReplicaSet};

/// A set that is to have so many pods.
pub(super) type Size = (Arc<ReplicaSet>, i32);

/// How many pods the new set may have, which has `current` now.
pub(super) fn new_replicas(deployment: &Deployment, sets: &Sets, current: i32) -> i32 {
    let room = max_replicas(deployment) - sets.wanted();
    if room <= 0 { current } else { current + room.min(deployment.replicas() - current) }
}

/// The next step: the new set grows if it can, or else old ones shrink if they can.
pub(super) fn step(deployment: &Deployment, sets: &Sets) -> Vec<Size> {
    let Some(new) = &sets.new else { return Vec::new() };
    let current = new.replicas();
    let wanted = if current >= deployment.replicas() {
        deployment.replicas()
    } else {
        new_replicas(deployment, sets, current)
    };
    if wanted != current { vec![(Arc::clone(new), wanted)] } else { shrink_old(deployment, sets, new) }
}

/// Takes pods of old sets away, those that are no use first. So many must stay that enough are available,
/// and pods of the new set that are not available yet are none of those that may go.
fn shrink_old(deployment: &Deployment, sets: &Sets, new: &ReplicaSet) -> Vec<Size> {
    let unavailable_new = new.replicas() - surely_available(new);
    let may_go = sets.wanted() - min_available(deployment) - unavailable_new;
    if may_go <= 0 {
        return Vec::new();
    }
    let mut sizes: Vec<Size> = sets
        .old
        .iter()
        .filter(|set| set.replicas() > 0)
        .map(|set| (Arc::clone(set), set.replicas()))
        .collect();
    let mut left = may_go;
    for (set, size) in &mut sizes {
        // The set deletes pods that are not ready before others.
        let useless = left.min(*size - set.status.available_replicas).max(0);
        *size -= useless;
        left -= useless;
    }
    let mut left = sets.surely_available() - min_available(deployment);
    for (_, size) in &mut sizes {
        let gone = left.min(*size).max(0);
        *size -= gone;
        left -= gone;
    }
    sizes.retain(|(set, size)| set.replicas() != *size);
    sizes
}
