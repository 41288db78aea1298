//! DefaultPreemption: evicts pods of lower priority to make room for a pod.

mod candidate;
#[cfg(test)]
mod tests;
mod victims;

use std::borrow::Cow;

use crate::cycle::Attempt;
use crate::framework::status::{Diagnosis, Histogram};
use crate::framework::{Nomination, Plugin, PostFilter};
use crate::view::Pod;

use candidate::Candidate;

/// Share of the resolvable nodes to examine as candidates, and its lower bound: the defaults of
/// kube-scheduler's `DefaultPreemptionArgs`.
const MIN_CANDIDATE_PERCENTAGE: usize = 10;
const MIN_CANDIDATES: usize = 100;

const NEVER: &str = "not eligible due to preemptionPolicy=Never.";
const WAITING: &str = "not eligible due to a terminating pod on the nominated node.";
const NOT_HELPFUL: Cow<'static, str> = Cow::Borrowed("Preemption is not helpful for scheduling");

pub(crate) struct DefaultPreemption;

impl Plugin for DefaultPreemption {
    fn name(&self) -> &'static str {
        "DefaultPreemption"
    }

    fn post_filter(&self, attempt: &mut Attempt<'_>, diagnosis: &Diagnosis) -> Option<PostFilter> {
        Some(preempt(attempt, diagnosis))
    }
}

fn preempt(attempt: &mut Attempt<'_>, diagnosis: &Diagnosis) -> PostFilter {
    let result =
        |message: &str| PostFilter { message: format!("preemption: {message}"), ..PostFilter::default() };
    if !attempt.pod.may_preempt {
        return result(NEVER);
    }
    if !diagnosis.nominated_is_unresolvable && has_terminating_victims(attempt) {
        return result(WAITING);
    }
    let (candidates, reasons, refused) = candidates(attempt, diagnosis);
    match candidate::best(candidates) {
        Some(Candidate { node, victims, .. }) => {
            PostFilter { message: String::new(), nomination: Nomination::Node(node), victims }
        }
        None => {
            let mut reasons = reasons;
            if diagnosis.nodes > refused {
                reasons.count(NOT_HELPFUL, diagnosis.nodes - refused);
            }
            let message = format!("0/{} nodes are available: {reasons}.", diagnosis.nodes);
            PostFilter { nomination: Nomination::Clear, ..result(&message) }
        }
    }
}

/// True if pods of lower priority are terminating on the nominated node.
fn has_terminating_victims(attempt: &Attempt<'_>) -> bool {
    let Attempt { state, pod, .. } = attempt;
    let nominated_node = state.nominated.node_of(&pod.metadata.uid).unwrap_or(&pod.nominated_node);
    let going = |other: &Pod| other.priority < pod.priority && other.is_terminating() && other.is_preempted;
    state.cache.find(nominated_node).is_some_and(|info| info.pods.iter().any(|other| going(other)))
}

/// Nodes on which preemption helps, and the reasons for the others that were examined, with their number.
fn candidates(attempt: &mut Attempt<'_>, diagnosis: &Diagnosis) -> (Vec<Candidate>, Histogram, usize) {
    let nodes = &diagnosis.resolvable;
    let wanted = (nodes.len() * MIN_CANDIDATE_PERCENTAGE / 100).max(MIN_CANDIDATES).min(nodes.len());
    let offset = usize::try_from(attempt.rng.below(nodes.len() as u64)).unwrap_or(0);
    let budgets: Vec<_> = attempt.state.workloads.budgets.values().map(|budget| &**budget).collect();
    let (mut found, mut reasons, mut refused) = (Vec::new(), Histogram::default(), 0);
    let mut without_violations = 0;
    for step in 0..nodes.len() {
        if without_violations > 0 && found.len() >= wanted {
            break;
        }
        let info = attempt.state.cache.info(nodes[(offset + step) % nodes.len()]);
        match victims::select(attempt, info, &budgets) {
            Ok(candidate) => {
                without_violations += usize::from(candidate.violations == 0);
                found.push(candidate);
            }
            Err(rejection) => {
                reasons.add(&rejection);
                refused += 1;
            }
        }
    }
    (found, reasons, refused)
}
