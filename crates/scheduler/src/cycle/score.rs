//! Which of the nodes that are for a pod is best.

use std::sync::Arc;

use coracle_base::Rng;

use crate::cache::NodeIndex;
use crate::framework::{PreScore, Profile};
use crate::view::Pod;
use crate::world::World;

/// The best node, any of them if several are.
pub(super) fn best(
    profile: &Profile,
    world: &World,
    pod: &Arc<Pod>,
    nodes: &[NodeIndex],
    rng: &mut Rng,
) -> NodeIndex {
    let totals = totals(profile, world, pod, nodes);
    let best = totals.iter().copied().max().unwrap_or(0);
    let as_good = nodes.iter().zip(&totals).filter(|(_, total)| **total == best).map(|(node, _)| *node);
    let count = as_good.clone().count() as u64;
    let which = usize::try_from(rng.below(count)).unwrap_or(0);
    as_good.clone().nth(which).unwrap_or(nodes[0])
}

/// What each node is worth.
pub(super) fn totals(profile: &Profile, world: &World, pod: &Arc<Pod>, nodes: &[NodeIndex]) -> Vec<i64> {
    let mut totals = vec![0; nodes.len()];
    let mut scores = vec![0; nodes.len()];
    for enabled in &profile.plugins {
        let PreScore::Score(scorer) = enabled.plugin.pre_score(world, pod, nodes) else { continue };
        for (score, node) in scores.iter_mut().zip(nodes) {
            *score = scorer.score(world.cache.info(*node));
        }
        scorer.normalize(&mut scores);
        for (total, score) in totals.iter_mut().zip(&scores) {
            *total += score * enabled.weight;
        }
    }
    totals
}
