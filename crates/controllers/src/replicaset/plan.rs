//! Number of pods to create, or the pods to delete. Pure.

use std::sync::Arc;

use coracle_base::Timestamp;

use crate::pod_control::deletion_order;
use crate::view::Pod;

/// Maximum number of pods created or deleted per sync: Kubernetes' `BurstReplicas`. The rest follows when the
/// informer has seen these.
pub(super) const BURST_REPLICAS: usize = 500;

/// Next step for a set.
#[derive(Debug)]
pub(super) enum Plan {
    Nothing,
    Create(usize),
    Delete(Vec<Arc<Pod>>),
}

/// Compares desired and actual replicas. `related` returns the pods of sets with the same owner, and is called only
/// if pods must be chosen.
pub(super) fn plan(
    replicas: i32,
    active: &[Arc<Pod>],
    related: impl FnOnce() -> Vec<Arc<Pod>>,
    now: Timestamp,
) -> Plan {
    let wanted = usize::try_from(replicas).unwrap_or_default();
    let (missing, surplus) = (wanted.saturating_sub(active.len()), active.len().saturating_sub(wanted));
    if missing > 0 {
        return Plan::Create(missing.min(BURST_REPLICAS));
    }
    if surplus == 0 {
        return Plan::Nothing;
    }
    let surplus = surplus.min(BURST_REPLICAS);
    let mut pods = active.to_vec();
    if surplus < pods.len() {
        deletion_order(&mut pods, &related(), now);
        pods.truncate(surplus);
    }
    Plan::Delete(pods)
}

/// Age of each deleted ready pod relative to the youngest ready one, in whole numbers as in Kubernetes. Empty if all
/// pods are deleted, because none was chosen.
pub(super) fn age_ratios(active: &[Arc<Pod>], deleted: &[Arc<Pod>], now: Timestamp) -> Vec<f64> {
    let age = |pod: &Arc<Pod>| now.since(pod.metadata.creation_timestamp).as_millis().max(1);
    let youngest = active.iter().filter(|pod| pod.is_ready()).map(age).min();
    let Some(youngest) = youngest.filter(|_| deleted.len() < active.len()) else { return Vec::new() };
    deleted.iter().filter(|pod| pod.is_ready()).map(|pod| (age(pod) / youngest) as f64).collect()
}
