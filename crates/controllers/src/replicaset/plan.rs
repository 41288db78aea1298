//! How many pods to make, or which ones to delete.

use std::sync::Arc;

use coracle_base::Timestamp;

use crate::pod_control::deletion_order;
use crate::view::Pod;

/// The most pods that one look at a set makes or deletes: upstream's `BurstReplicas`. The rest follows when
/// these are seen.
pub(super) const BURST_REPLICAS: usize = 500;

/// What a set lacks.
#[derive(Debug)]
pub(super) enum Plan {
    Nothing,
    Create(usize),
    Delete(Vec<Arc<Pod>>),
}

/// Compares what is wanted with what there is. `related` are the pods of sets of the same owner, asked for
/// only if it matters which pods go.
pub(super) fn plan(
    replicas: i32,
    active: &[Arc<Pod>],
    related: impl FnOnce() -> Vec<Arc<Pod>>,
    now: Timestamp,
) -> Plan {
    let wanted = usize::try_from(replicas).unwrap_or_default();
    let (missing, superfluous) = (wanted.saturating_sub(active.len()), active.len().saturating_sub(wanted));
    if missing > 0 {
        return Plan::Create(missing.min(BURST_REPLICAS));
    }
    if superfluous == 0 {
        return Plan::Nothing;
    }
    let superfluous = superfluous.min(BURST_REPLICAS);
    let mut pods = active.to_vec();
    if superfluous < pods.len() {
        deletion_order(&mut pods, &related(), now);
        pods.truncate(superfluous);
    }
    Plan::Delete(pods)
}

/// How many times older each of the ready pods that go is than the youngest ready one, in whole numbers as
/// upstream has it. Where all go, nothing was chosen.
pub(super) fn age_ratios(active: &[Arc<Pod>], going: &[Arc<Pod>], now: Timestamp) -> Vec<f64> {
    let age = |pod: &Arc<Pod>| now.since(pod.metadata.creation_timestamp).as_millis().max(1);
    let youngest = active.iter().filter(|pod| pod.is_ready()).map(age).min();
    let Some(youngest) = youngest.filter(|_| going.len() < active.len()) else { return Vec::new() };
    going.iter().filter(|pod| pod.is_ready()).map(|pod| (age(pod) / youngest) as f64).collect()
}
