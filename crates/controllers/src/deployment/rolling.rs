//! Rolling updates of deployments.

use std::sync::Arc;

use super::limits::{max_replicas, min_available};
use super::sets::{Sets, certainly_available};
use crate::view::{Deployment, ReplicaSet};

/// A set and its desired replicas.
pub(super) type Size = (Arc<ReplicaSet>, i32);

/// Number of pods that the new set may have, given its `current` replicas.
pub(super) fn new_replicas(deployment: &Deployment, sets: &Sets, current: i32) -> i32 {
    let room = max_replicas(deployment) - sets.wanted();
    if room <= 0 { current } else { current + room.min(deployment.replicas() - current) }
}

/// The next step: scale up the new set if possible, otherwise scale down old ones.
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

/// Scales down old sets, unavailable pods first. Enough pods must stay available, and pods of the new set that are
/// not available yet do not count as such.
fn shrink_old(deployment: &Deployment, sets: &Sets, new: &ReplicaSet) -> Vec<Size> {
    let unavailable_new = new.replicas() - certainly_available(new);
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
        // Replica sets delete unready pods first.
        let unavailable = left.min(*size - set.status.available_replicas).max(0);
        *size -= unavailable;
        left -= unavailable;
    }
    let mut left = sets.certainly_available() - min_available(deployment);
    for (_, size) in &mut sizes {
        let gone = left.min(*size).max(0);
        *size -= gone;
        left -= gone;
    }
    sizes.retain(|(set, size)| set.replicas() != *size);
    sizes
}
