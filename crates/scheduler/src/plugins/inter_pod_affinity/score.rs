//! InterPodAffinity score: preferred terms of the pod, and terms of existing pods that match it.

use super::near::{self, Near};
use crate::cache::{NodeInfo, Said};
use crate::cluster_state::ClusterState;
use crate::framework::{MAX_NODE_SCORE, NodeScore};
use crate::view::Pod;

/// The scorer of the plugin.
pub(super) struct Liking<'w> {
    state: &'w ClusterState,
    /// The pod's preferred terms with their weight.
    own: Vec<(i64, Near)>,
    /// Matching terms of existing pods with their weight.
    theirs: Vec<(i64, &'w Said)>,
}

impl<'w> Liking<'w> {
    /// None if every score would be zero.
    pub(super) fn new(state: &'w ClusterState, pod: &Pod, hard_weight: i64) -> Option<Self> {
        let wishes = pod.affinity.iter().flat_map(|affinity| {
            let liked = affinity.preferred.iter().map(|wish| (wish.weight, wish));
            liked.chain(affinity.anti_preferred.iter().map(|wish| (-wish.weight, wish)))
        });
        let own: Vec<_> = wishes
            .map(|(weight, wish)| {
                (weight, Near::new(state, &near::one(state, &wish.term), &wish.term.topology_key))
            })
            .filter(|(_, near)| near.is_anybody)
            .collect();
        let of_namespace = state.workloads.namespace_labels(pod.namespace());
        let terms = state.cache.terms();
        let must = terms.required.iter().map(|(term, said)| (hard_weight, term, said));
        let like = terms.preferred.iter().map(|(term, said)| (1, term, said));
        let theirs: Vec<_> = must
            .chain(like)
            .filter(|(weight, term, _)| {
                *weight != 0 && term.matches(pod.namespace(), &pod.labels, of_namespace)
            })
            .map(|(weight, _, said)| (weight, said))
            .collect();
        (!own.is_empty() || !theirs.is_empty()).then_some(Self { state, own, theirs })
    }
}

impl NodeScore for Liking<'_> {
    fn score(&self, info: &NodeInfo) -> i64 {
        let topology = self.state.cache.topology();
        let own = self
            .own
            .iter()
            .map(|(weight, near)| near.value(self.state, info).map_or(0, |value| weight * near.at(value)));
        let theirs = self.theirs.iter().map(|(weight, said)| {
            topology.value(said.column, info.index).map_or(0, |value| weight * said.at(value))
        });
        own.chain(theirs).sum()
    }

    fn normalize(&self, scores: &mut [i64]) {
        let (least, most) = (scores.iter().min().copied(), scores.iter().max().copied());
        let (Some(least), Some(most)) = (least, most) else { return };
        for score in scores {
            #[expect(clippy::cast_possible_truncation, reason = "between zero and a hundred")]
            let share = (MAX_NODE_SCORE as f64 * ((*score - least) as f64 / (most - least) as f64)) as i64;
            *score = if most > least { share } else { 0 };
        }
    }
}
