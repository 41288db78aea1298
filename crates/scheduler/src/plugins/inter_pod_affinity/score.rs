//! InterPodAffinity score: preferred terms of the pod, and terms of existing pods that match it.

use super::topology_counts::{self, TopologyCounts};
use crate::cache::{NodeInfo, TermWeights};
use crate::cluster_state::ClusterState;
use crate::framework::{MAX_NODE_SCORE, NodeScore};
use crate::view::Pod;

/// The scorer of the plugin.
pub(super) struct AffinityScore<'w> {
    state: &'w ClusterState,
    /// The pod's preferred terms with their weight.
    own: Vec<(i64, TopologyCounts)>,
    /// Matching terms of existing pods with their weight.
    of_existing: Vec<(i64, &'w TermWeights)>,
}

impl<'w> AffinityScore<'w> {
    /// None if every score would be zero.
    pub(super) fn new(state: &'w ClusterState, pod: &Pod, hard_weight: i64) -> Option<Self> {
        let preferences = pod.affinity.iter().flat_map(|affinity| {
            let preferred = affinity.preferred.iter().map(|preference| (preference.weight, preference));
            preferred.chain(affinity.anti_preferred.iter().map(|preference| (-preference.weight, preference)))
        });
        let own: Vec<_> = preferences
            .map(|(weight, preference)| {
                (
                    weight,
                    TopologyCounts::new(
                        state,
                        &topology_counts::one(state, &preference.term),
                        &preference.term.topology_key,
                    ),
                )
            })
            .filter(|(_, counts)| counts.has_any)
            .collect();
        let of_namespace = state.workloads.namespace_labels(pod.namespace());
        let terms = state.cache.terms();
        let must = terms.required.iter().map(|(term, weights)| (hard_weight, term, weights));
        let like = terms.preferred.iter().map(|(term, weights)| (1, term, weights));
        let of_existing: Vec<_> = must
            .chain(like)
            .filter(|(weight, term, _)| {
                *weight != 0 && term.matches(pod.namespace(), &pod.labels, of_namespace)
            })
            .map(|(weight, _, weights)| (weight, weights))
            .collect();
        (!own.is_empty() || !of_existing.is_empty()).then_some(Self { state, own, of_existing })
    }
}

impl NodeScore for AffinityScore<'_> {
    fn score(&self, info: &NodeInfo) -> i64 {
        let topology = self.state.cache.topology();
        let own = self.own.iter().map(|(weight, counts)| {
            counts.value(self.state, info).map_or(0, |value| weight * counts.at(value))
        });
        let of_existing = self.of_existing.iter().map(|(weight, weights)| {
            topology.value(weights.column, info.index).map_or(0, |value| weight * weights.at(value))
        });
        own.chain(of_existing).sum()
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
