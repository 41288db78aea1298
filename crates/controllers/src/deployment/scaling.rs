//! Scaling of a deployment, possibly during a rollout.

use std::cmp::Reverse;
use std::sync::Arc;

use super::annotations::{DESIRED_REPLICAS, MAX_REPLICAS, count};
use super::limits::{is_rolling, max_replicas};
use super::rolling::Size;
use super::sets::{Sets, age};
use crate::view::{Deployment, ReplicaSet};

/// True if a set was last scaled for another size of the deployment.
pub(super) fn is_scaled(deployment: &Deployment, sets: &Sets) -> bool {
    let desired = |set: &ReplicaSet| count(&set.metadata.annotations, DESIRED_REPLICAS);
    sets.active().any(|set| desired(set).is_some_and(|desired| desired != deployment.replicas()))
}

/// New sizes of all sets. A set whose size stays is included if its size annotations must change.
pub(super) fn scale(deployment: &Deployment, sets: &Sets) -> Vec<Size> {
    if let Some(only) = sets.active_or_latest() {
        return vec![(Arc::clone(only), deployment.replicas())];
    }
    if sets.new.as_ref().is_some_and(|new| is_saturated(deployment, new)) {
        let active = sets.old.iter().filter(|set| set.replicas() > 0);
        return active.map(|set| (Arc::clone(set), 0)).collect();
    }
    if is_rolling(deployment) { proportional(deployment, sets) } else { Vec::new() }
}

/// True if the new set has all pods of the deployment, and they are available.
fn is_saturated(deployment: &Deployment, new: &ReplicaSet) -> bool {
    let wanted = deployment.replicas();
    new.replicas() == wanted
        && count(&new.metadata.annotations, DESIRED_REPLICAS) == Some(wanted)
        && new.status.available_replicas == wanted
}

/// Distributes the difference over the sets in proportion to their sizes. The largest set gets the remainder of
/// rounding.
fn proportional(deployment: &Deployment, sets: &Sets) -> Vec<Size> {
    let mut active: Vec<_> = sets.active().cloned().collect();
    let allowed = if deployment.replicas() > 0 { max_replicas(deployment) } else { 0 };
    let to_add = allowed - active.iter().map(|set| set.replicas()).sum::<i32>();
    // Among sets of equal size, newer ones grow first, and older ones shrink first.
    active.sort_by(|one, other| {
        let by_age = if to_add > 0 { age(other).cmp(&age(one)) } else { age(one).cmp(&age(other)) };
        Reverse(one.replicas()).cmp(&Reverse(other.replicas())).then(by_age)
    });
    let mut left = to_add;
    let mut sizes: Vec<Size> = Vec::with_capacity(active.len());
    for set in active {
        let share = share(deployment, &set);
        let share = if to_add > 0 { share.min(left) } else { share.max(left) };
        let share = if left == 0 { 0 } else { share };
        left -= share;
        let size = set.replicas() + share;
        sizes.push((set, size));
    }
    if let Some((_, size)) = sizes.first_mut() {
        *size = (*size + left).max(0);
    }
    sizes
}

/// By how much a set grows if it keeps its proportion of the deployment.
fn share(deployment: &Deployment, set: &ReplicaSet) -> i32 {
    let size = set.replicas();
    if deployment.replicas() == 0 {
        return -size;
    }
    // Without the annotation, the deployment's current size is assumed.
    let before = count(&set.metadata.annotations, MAX_REPLICAS).filter(|max| *max > 0);
    let before = i64::from(before.unwrap_or(deployment.status.replicas));
    if before <= 0 {
        return 0;
    }
    let product = i64::from(size) * i64::from(max_replicas(deployment));
    // Rounded to the nearest, halves up.
    let grown = (2 * product + before).div_euclid(2 * before);
    i32::try_from(grown).unwrap_or(i32::MAX) - size
}
