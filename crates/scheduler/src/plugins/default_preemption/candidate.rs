//! On which node the least harm is done.

use std::cmp::Reverse;
use std::sync::Arc;

use coracle_meta::time::Time;

use crate::view::Pod;

/// A node, and who has to go from it.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) node: Box<str>,
    /// The most important first.
    pub(super) victims: Vec<Arc<Pod>>,
    /// How many of them are protected by a budget that is used up.
    pub(super) violations: usize,
}

/// When a pod began; one that has not begun is the newest of all.
pub(super) fn began(pod: &Pod) -> Time {
    pod.start_time.unwrap_or(Time(i64::MAX))
}

/// The candidate with the least harm: fewest protected victims, then the least important ones, then the
/// smallest sum of importance, then fewest, then those who began last.
pub(super) fn best(candidates: Vec<Candidate>) -> Option<Candidate> {
    candidates.into_iter().min_by_key(|candidate| {
        let highest = candidate.victims.first().map_or(i32::MIN, |pod| pod.priority);
        // All made positive, or many of little importance would count less than few.
        let sum: i64 =
            candidate.victims.iter().map(|pod| i64::from(pod.priority) + i64::from(i32::MAX) + 1).sum();
        let most_important = candidate.victims.iter().filter(|pod| pod.priority == highest);
        let earliest = most_important.map(|pod| began(pod)).min().unwrap_or(Time(i64::MAX));
        (candidate.violations, highest, sum, candidate.victims.len(), Reverse(earliest))
    })
}
