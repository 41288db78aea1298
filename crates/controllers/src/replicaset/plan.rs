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
