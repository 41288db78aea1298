//! Selection of the victims on one node: as few as possible, and of the lowest priority.

use std::cmp::Reverse;
use std::sync::Arc;

use super::candidate::{Candidate, started_at};
use crate::cache::NodeInfo;
use crate::cycle::{Active, Attempt, fits};
use crate::framework::Rejection;
use crate::view::Pod;
use crate::view::workload::DisruptionBudget;

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// A copy of a node on which evictions are simulated.
struct Trial<'a, 'w> {
    attempt: &'a Attempt<'w>,
    info: NodeInfo,
    filters: Vec<Active<'w>>,
}

impl Trial<'_, '_> {
    fn remove(&mut self, pod: &Arc<Pod>) {
        self.info.remove(&pod.metadata.uid);
        for active in &mut self.filters {
            active.filter.remove_pod(pod, &self.info);
        }
    }

    fn add(&mut self, pod: &Arc<Pod>) {
        self.info.add(Arc::clone(pod));
        for active in &mut self.filters {
            active.filter.add_pod(pod, &self.info);
        }
    }

    fn fits(&self) -> Result<(), Rejection> {
        let Attempt { state, pod, .. } = self.attempt;
        let fits = fits(&self.filters, state, pod, &self.info).map_err(|(_, rejection)| rejection);
        Active::count_back(&self.filters, &self.attempt.filters);
        fits
    }

    /// Puts a victim back if the pod fits nevertheless. True if it does.
    fn reprieve(&mut self, pod: &Arc<Pod>) -> bool {
        self.add(pod);
        let may_stay = self.fits().is_ok();
        if !may_stay {
            self.remove(pod);
        }
        may_stay
    }
}

/// Selects the pods to evict from a node.
pub(super) fn select(
    attempt: &Attempt<'_>,
    info: &NodeInfo,
    budgets: &[&DisruptionBudget],
) -> Result<Candidate, Rejection> {
    let less_important = |pod: &&Arc<Pod>| pod.priority < attempt.pod.priority;
    let mut potential: Vec<_> = info.pods.iter().filter(less_important).cloned().collect();
    if potential.is_empty() {
        return Err(Rejection::unresolvable(NO_VICTIMS));
    }
    let mut trial = Trial { attempt, info: info.clone(), filters: Active::copies(&attempt.filters) };
    potential.iter().for_each(|pod| trial.remove(pod));
    trial.fits()?;
    potential.sort_by_key(|pod| (Reverse(pod.priority), started_at(pod)));
    let (protected, free) = protected(potential, budgets);
    let mut victims: Vec<_> = protected.into_iter().filter(|pod| !trial.reprieve(pod)).collect();
    let violations = victims.len();
    victims.extend(free.into_iter().filter(|pod| !trial.reprieve(pod)));
    victims.sort_by_key(|pod| (Reverse(pod.priority), started_at(pod)));
    if victims.is_empty() {
        // The pod fits without evictions although the filters just rejected the node.
        return Err(Rejection::unresolvable(NO_VICTIMS));
    }
    let node = info.node.as_ref().map(|node| node.metadata.name.clone()).unwrap_or_default();
    Ok(Candidate { node, victims, violations })
}

/// Splits pods into those whose eviction violates a PodDisruptionBudget and the others, keeping the order.
fn protected(pods: Vec<Arc<Pod>>, budgets: &[&DisruptionBudget]) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
    let mut left: Vec<i64> = budgets.iter().map(|budget| budget.allowed).collect();
    pods.into_iter().partition(|pod| {
        let mut violates = false;
        for (budget, left) in budgets.iter().zip(&mut left) {
            let counts = !pod.labels.is_empty()
                && budget.protects(pod.namespace(), &pod.labels)
                && !budget.disrupted.contains(&pod.metadata.name);
            if counts {
                *left -= 1;
                violates |= *left < 0;
            }
        }
        violates
    })
}
