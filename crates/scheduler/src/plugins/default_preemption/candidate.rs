//! Selection of the candidate node for preemption.

use std::cmp::Reverse;
use std::sync::Arc;

use coracle_meta::time::Time;

use crate::view::Pod;

/// A candidate node with the pods to evict from it.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) node: Box<str>,
    /// Highest priority first.
    pub(super) victims: Vec<Arc<Pod>>,
    /// Number of victims whose PodDisruptionBudget allows no disruption.
    pub(super) violations: usize,
}

/// Start time of a pod; a pod that has not started counts as the latest.
pub(super) fn started_at(pod: &Pod) -> Time {
    pod.start_time.unwrap_or(Time(i64::MAX))
}

/// The candidate with the fewest PodDisruptionBudget violations, then the lowest highest priority among the
/// victims, then the lowest sum of priorities, then the fewest victims, then the latest start time.
pub(super) fn best(candidates: Vec<Candidate>) -> Option<Candidate> {
    candidates.into_iter().min_by_key(|candidate| {
        let highest = candidate.victims.first().map_or(i32::MIN, |pod| pod.priority);
        // Offset to positive values; otherwise many victims of negative priority would count less than few.
        let sum: i64 =
            candidate.victims.iter().map(|pod| i64::from(pod.priority) + i64::from(i32::MAX) + 1).sum();
        let most_important = candidate.victims.iter().filter(|pod| pod.priority == highest);
        let earliest = most_important.map(|pod| started_at(pod)).min().unwrap_or(Time(i64::MAX));
        (candidate.violations, highest, sum, candidate.victims.len(), Reverse(earliest))
    })
}
