//! InterPodAffinity: places pods near other pods, or away from them.

mod filter;
mod score;
mod topology_counts;

use std::sync::Arc;

use crate::cache::NodeIndex;
use crate::cluster_state::ClusterState;
use crate::framework::{About, ClusterEvent, Plugin, PreFilter, PreScore};
use crate::view::{Affinity, Node, Pod, Term};

pub(crate) struct InterPodAffinity {
    /// Weight of the required affinity terms of existing pods that match the incoming pod.
    hard_pod_affinity_weight: i64,
}

impl InterPodAffinity {
    pub(crate) fn new(hard_pod_affinity_weight: i64) -> Self {
        Self { hard_pod_affinity_weight }
    }
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn prepare(&self, state: &mut ClusterState, pod: &Pod) {
        let Some(affinity) = pod.affinity.as_ref().filter(|affinity| affinity.has_pod_terms()) else {
            return;
        };
        for term in terms(affinity) {
            state.cache.ensure_column(&term.topology_key);
        }
        for selection in topology_counts::selections(state, affinity) {
            state.cache.ensure_counts(&selection);
        }
    }

    fn pre_filter<'w>(&'w self, state: &'w ClusterState, pod: &'w Arc<Pod>) -> PreFilter<'w> {
        filter::AffinityFilter::new(state, pod)
            .map_or(PreFilter::Skip, |filter| PreFilter::Filter(Box::new(filter)))
    }

    fn pre_score<'w>(
        &'w self,
        state: &'w ClusterState,
        pod: &'w Arc<Pod>,
        _nodes: &[NodeIndex],
    ) -> PreScore<'w> {
        score::AffinityScore::new(state, pod, self.hard_pod_affinity_weight)
            .map_or(PreScore::Skip, |score| PreScore::Score(Box::new(score)))
    }

    fn wants(&self, about: About) -> bool {
        about != About::Storage
    }

    fn hint(&self, state: &ClusterState, pod: &Pod, event: &ClusterEvent) -> bool {
        let (with, without) = pod
            .affinity
            .as_ref()
            .map_or((&[][..], &[][..]), |affinity| (&affinity.required, &affinity.anti_required));
        let matches = |terms: &[Arc<Term>], other: &Pod| all_match(state, terms, other);
        match event {
            ClusterEvent::PendingChanged { new, changes, .. } => {
                changes.labels && new.metadata.uid == pod.metadata.uid
            }
            ClusterEvent::PodPlaced(other) => other.occupies_node() && matches(with, other),
            ClusterEvent::PodGone(other) => {
                let of_existing = other.affinity.as_ref().map_or(&[][..], |affinity| &affinity.anti_required);
                other.occupies_node() && (matches(without, other) || matches(of_existing, pod))
            }
            ClusterEvent::PodChanged { old, new, changes } => {
                changes.labels
                    && ((!matches(with, old) && matches(with, new))
                        || (matches(without, old) && !matches(without, new)))
            }
            ClusterEvent::NodeAdded(node) => {
                let has = |term: &Arc<Term>| node.labels.contains_key(&term.topology_key);
                with.iter().any(has) || !without.is_empty()
            }
            ClusterEvent::NodeChanged { old, new, changes } => {
                changes.labels
                    && (with.iter().any(|term| has_joined(term, old, new))
                        || without.iter().any(|term| has_left(term, old, new)))
            }
            _ => false,
        }
    }
}

/// All terms of an affinity, required and preferred.
fn terms(affinity: &Affinity) -> impl Iterator<Item = &Arc<Term>> {
    let wished = affinity.preferred.iter().chain(&affinity.anti_preferred).map(|wish| &wish.term);
    affinity.required.iter().chain(&affinity.anti_required).chain(wished)
}

/// True if there are terms and all of them match the pod.
fn all_match(state: &ClusterState, terms: &[Arc<Term>], other: &Pod) -> bool {
    let of_namespace = state.workloads.namespace_labels(other.namespace());
    !terms.is_empty() && terms.iter().all(|term| term.matches(other.namespace(), &other.labels, of_namespace))
}

/// True if the node's value of a term's topology key is new or changed.
fn has_joined(term: &Term, old: &Node, new: &Node) -> bool {
    let now = new.labels.get(&term.topology_key);
    now.is_some() && now != old.labels.get(&term.topology_key)
}

/// True if the node lost its previous value of a term's topology key.
fn has_left(term: &Term, old: &Node, new: &Node) -> bool {
    let before = old.labels.get(&term.topology_key);
    before.is_some() && before != new.labels.get(&term.topology_key)
}
