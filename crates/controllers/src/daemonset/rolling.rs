//! Replacing pods that do not look as their set does now, some at a time.

use std::collections::HashSet;
use std::sync::Arc;

use super::eligible::eligible;
use super::plan::{ByNode, Known, Plan};
use crate::view::{IntOrString, Pod, Rounding};

/// How many pods may be missing, or too many.
struct Limits {
    max_unavailable: usize,
    max_surge: usize,
}

/// Adds to the plan what the next step of a rolling update is.
pub(super) fn update<'a>(
    known: &Known<'a>,
    mut by_node: ByNode<'a>,
    max_unavailable: &IntOrString,
    max_surge: &IntOrString,
    plan: &mut Plan,
) {
    let wanted = known.nodes.iter().filter(|node| eligible(known.set, node).should_run);
    let wanted: HashSet<&str> = wanted.map(|node| node.metadata.name()).collect();
    for &node in &wanted {
        by_node.entry(node).or_default();
    }
    let limits = limits(wanted.len(), max_unavailable, max_surge);
    if limits.max_surge == 0 {
        replace(known, &by_node, &limits, plan);
    } else {
        surge(known, &by_node, &wanted, &limits, plan);
    }
}

fn limits(desired: usize, max_unavailable: &IntOrString, max_surge: &IntOrString) -> Limits {
    let total = i32::try_from(desired).unwrap_or(i32::MAX);
    let scaled = |amount: &IntOrString| {
        let amount = amount.scaled(total, Rounding::Up).unwrap_or_default();
        usize::try_from(amount).unwrap_or_default()
    };
    let (max_unavailable, max_surge) = (scaled(max_unavailable), scaled(max_surge));
    // With neither, nothing could ever be replaced.
    let stuck = desired > 0 && max_unavailable == 0 && max_surge == 0;
    Limits { max_unavailable: if stuck { 1 } else { max_unavailable }, max_surge }
}

/// The pods on one node, if there is one of each sort at most.
struct Pair<'a> {
    new: Option<&'a Arc<Pod>>,
    old: Option<&'a Arc<Pod>>,
}

/// None if there are too many, which are taken care of elsewhere.
fn pair<'a>(known: &Known<'_>, pods: &[&'a Arc<Pod>]) -> Option<Pair<'a>> {
    let mut pair = Pair { new: None, old: None };
    for pod in pods.iter().copied().filter(|pod| !pod.metadata.is_terminating()) {
        let place = if known.is_updated(pod) { &mut pair.new } else { &mut pair.old };
        if place.replace(pod).is_some() {
            return None;
        }
    }
    Some(pair)
}

/// Deletes old pods, as long as no more than so many are not available. New ones come to where none is.
fn replace(known: &Known<'_>, by_node: &ByNode<'_>, limits: &Limits, plan: &mut Plan) {
    let mut unavailable = 0;
    let mut candidates = Vec::new();
    for pods in by_node.values() {
        match pair(known, pods) {
            Some(Pair { new: Some(new), old: None }) => unavailable += usize::from(!known.is_available(new)),
            Some(Pair { new: None, old: Some(old) }) if known.is_available(old) => candidates.push(old),
            Some(Pair { new: None, old: Some(old) }) => {
                // Nothing is lost by it, so it goes at once.
                plan.delete.push(Arc::clone(old));
                unavailable += 1;
            }
            _ => unavailable += 1,
        }
    }
    let allowed = limits.max_unavailable.saturating_sub(unavailable);
    plan.delete.extend(candidates.into_iter().take(allowed).cloned());
}

/// Makes new pods beside old ones, as long as there are no more than so many, and deletes an old one when the
/// new one is available.
fn surge(known: &Known<'_>, by_node: &ByNode<'_>, wanted: &HashSet<&str>, limits: &Limits, plan: &mut Plan) {
    let (mut surging, mut available) = (0, 0);
    let (mut candidates, mut leaving) = (Vec::new(), Vec::new());
    for (&node, pods) in by_node {
        let Some(Pair { new, old }) = pair(known, pods) else {
            surging += 1;
            continue;
        };
        available += usize::from(old.or(new).is_some_and(|pod| known.is_available(pod)));
        match (new, old) {
            (_, None) => {}
            (Some(new), Some(old)) if known.is_available(new) => plan.delete.push(Arc::clone(old)),
            (Some(_), Some(_)) => surging += 1,
            (None, Some(old)) => match (known.is_available(old), wanted.contains(node)) {
                (false, false) => plan.delete.push(Arc::clone(old)),
                (false, true) => plan.create.push(node.into()),
                (true, false) => leaving.push(old),
                (true, true) => candidates.push(node),
            },
        }
    }
    // Whoever surges wants all to be available all the time: a pod leaves a node when another one has come.
    plan.delete.extend(leaving.into_iter().take(available.saturating_sub(wanted.len())).cloned());
    let allowed = limits.max_surge.saturating_sub(surging);
    plan.create.extend(candidates.into_iter().take(allowed).map(Box::from));
}
