//! Rolling updates: replaces pods of old revisions, some at a time.

use std::collections::HashSet;
use std::sync::Arc;

use super::eligible::eligible;
use super::plan::{ByNode, Observed, Plan};
use crate::view::{IntOrString, Pod, Rounding};

/// Numbers of pods that may be unavailable, and that may surge.
struct Limits {
    max_unavailable: usize,
    max_surge: usize,
}

/// Adds the next step of a rolling update to the plan.
pub(super) fn update<'a>(
    observed: &Observed<'a>,
    mut by_node: ByNode<'a>,
    max_unavailable: &IntOrString,
    max_surge: &IntOrString,
    plan: &mut Plan,
) {
    let wanted = observed.nodes.iter().filter(|node| eligible(observed.set, node).should_run);
    let wanted: HashSet<&str> = wanted.map(|node| node.metadata.name()).collect();
    for &node in &wanted {
        by_node.entry(node).or_default();
    }
    let limits = limits(wanted.len(), max_unavailable, max_surge);
    if limits.max_surge == 0 {
        replace(observed, &by_node, &limits, plan);
    } else {
        surge(observed, &by_node, &wanted, &limits, plan);
    }
}

fn limits(desired: usize, max_unavailable: &IntOrString, max_surge: &IntOrString) -> Limits {
    let total = i32::try_from(desired).unwrap_or(i32::MAX);
    let scaled = |amount: &IntOrString| {
        let amount = amount.scaled(total, Rounding::Up).unwrap_or_default();
        usize::try_from(amount).unwrap_or_default()
    };
    let (max_unavailable, max_surge) = (scaled(max_unavailable), scaled(max_surge));
    // If both are zero, no pod could ever be replaced.
    let stuck = desired > 0 && max_unavailable == 0 && max_surge == 0;
    Limits { max_unavailable: if stuck { 1 } else { max_unavailable }, max_surge }
}

/// The pods on one node, at most one of each kind.
struct Pair<'a> {
    new: Option<&'a Arc<Pod>>,
    old: Option<&'a Arc<Pod>>,
}

/// `None` if a node has more pods, which `manage_node` handles.
fn pair<'a>(observed: &Observed<'_>, pods: &[&'a Arc<Pod>]) -> Option<Pair<'a>> {
    let mut pair = Pair { new: None, old: None };
    for pod in pods.iter().copied().filter(|pod| !pod.metadata.is_terminating()) {
        let place = if observed.is_updated(pod) { &mut pair.new } else { &mut pair.old };
        if place.replace(pod).is_some() {
            return None;
        }
    }
    Some(pair)
}

/// Deletes old pods within `max_unavailable`. New ones are created on nodes without a pod.
fn replace(observed: &Observed<'_>, by_node: &ByNode<'_>, limits: &Limits, plan: &mut Plan) {
    let mut unavailable = 0;
    let mut candidates = Vec::new();
    for pods in by_node.values() {
        match pair(observed, pods) {
            Some(Pair { new: Some(new), old: None }) => {
                unavailable += usize::from(!observed.is_available(new))
            }
            Some(Pair { new: None, old: Some(old) }) if observed.is_available(old) => candidates.push(old),
            Some(Pair { new: None, old: Some(old) }) => {
                // It is not available anyway, so it is deleted at once.
                plan.delete.push(Arc::clone(old));
                unavailable += 1;
            }
            _ => unavailable += 1,
        }
    }
    let allowed = limits.max_unavailable.saturating_sub(unavailable);
    plan.delete.extend(candidates.into_iter().take(allowed).cloned());
}

/// Creates new pods beside old ones within `max_surge`, and deletes the old pod when the new one is available.
fn surge(
    observed: &Observed<'_>,
    by_node: &ByNode<'_>,
    wanted: &HashSet<&str>,
    limits: &Limits,
    plan: &mut Plan,
) {
    let (mut surging, mut available) = (0, 0);
    let (mut candidates, mut leaving) = (Vec::new(), Vec::new());
    for (&node, pods) in by_node {
        let Some(Pair { new, old }) = pair(observed, pods) else {
            surging += 1;
            continue;
        };
        available += usize::from(old.or(new).is_some_and(|pod| observed.is_available(pod)));
        match (new, old) {
            (_, None) => {}
            (Some(new), Some(old)) if observed.is_available(new) => plan.delete.push(Arc::clone(old)),
            (Some(_), Some(_)) => surging += 1,
            (None, Some(old)) => match (observed.is_available(old), wanted.contains(node)) {
                (false, false) => plan.delete.push(Arc::clone(old)),
                (false, true) => plan.create.push(node.into()),
                (true, false) => leaving.push(old),
                (true, true) => candidates.push(node),
            },
        }
    }
    // Surge is meant to keep all pods available: a pod leaves an unwanted node only when another one is available.
    plan.delete.extend(leaving.into_iter().take(available.saturating_sub(wanted.len())).cloned());
    let allowed = limits.max_surge.saturating_sub(surging);
    plan.create.extend(candidates.into_iter().take(allowed).map(Box::from));
}
