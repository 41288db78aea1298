//! InterPodAffinity filter: required affinity and anti-affinity of the pod, and required anti-affinity of
//! existing pods.

use std::sync::Arc;

use super::all_match;
use super::topology_counts::{self, TopologyCounts};
use crate::cache::{NodeInfo, TermWeights};
use crate::cluster_state::ClusterState;
use crate::framework::{Filter, NodeFilter, Rejection};
use crate::view::{Pod, Term};

const AFFINITY_REASON: &str = "node(s) didn't match pod affinity rules";
const ANTI_AFFINITY_REASON: &str = "node(s) didn't match pod anti-affinity rules";
const EXISTING_ANTI_AFFINITY_REASON: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// State that is not affected by simulated pods.
struct Base<'w> {
    state: &'w ClusterState,
    pod: &'w Pod,
    /// For each affinity term, the number of pods per topology value that match all affinity terms.
    with: Vec<TopologyCounts>,
    /// For each anti-affinity term, the number of pods per topology value that match it.
    without: Vec<TopologyCounts>,
    /// Anti-affinity terms of existing pods that match this pod.
    existing_anti_affinity: Vec<&'w TermWeights>,
    /// No existing pod matches the required affinity, but the pod matches its own terms, so it may be
    /// scheduled first.
    allows_first_pod: bool,
    required: &'w [Arc<Term>],
    anti_required: &'w [Arc<Term>],
}

/// Changes to the counts by simulated pods, all on one node.
#[derive(Clone, Default)]
struct SimulatedCounts {
    with: i64,
    without: Vec<i64>,
    existing_anti_affinity: i64,
}

/// The filter of the plugin.
#[derive(Clone)]
pub(super) struct AffinityFilter<'w> {
    base: Arc<Base<'w>>,
    simulated: Option<SimulatedCounts>,
}

impl<'w> AffinityFilter<'w> {
    /// None if the filter would accept every node.
    pub(super) fn new(state: &'w ClusterState, pod: &'w Pod) -> Option<Self> {
        let (required, anti_required) = pod
            .affinity
            .as_ref()
            .map_or((&[][..], &[][..]), |affinity| (&*affinity.required, &*affinity.anti_required));
        let of_namespace = state.workloads.namespace_labels(pod.namespace());
        let existing_anti_affinity: Vec<_> = (state.cache.terms().anti_required.iter())
            .filter(|(term, _)| term.matches(pod.namespace(), &pod.labels, of_namespace))
            .map(|(_, weights)| weights)
            .collect();
        if required.is_empty() && anti_required.is_empty() && existing_anti_affinity.is_empty() {
            return None;
        }
        let all = (!required.is_empty()).then(|| topology_counts::all_of(state, required));
        let with: Vec<_> = (all.iter())
            .flat_map(|all| required.iter().map(|term| TopologyCounts::new(state, all, &term.topology_key)))
            .collect();
        let without = anti_required
            .iter()
            .map(|term| TopologyCounts::new(state, &topology_counts::one(state, term), &term.topology_key))
            .collect();
        let allows_first_pod = !with.iter().any(|counts| counts.has_any) && all_match(state, required, pod);
        let base = Base {
            state,
            pod,
            with,
            without,
            existing_anti_affinity,
            allows_first_pod,
            required,
            anti_required,
        };
        Some(Self { base: Arc::new(base), simulated: None })
    }

    fn satisfies_affinity(&self, info: &NodeInfo) -> bool {
        let Base { state, with, allows_first_pod, .. } = &*self.base;
        let more = self.simulated.as_ref().map_or(0, |simulated| simulated.with);
        let mut all_there = true;
        for counts in with {
            // The node must have every topology key, even for the first pod of a group.
            let Some(value) = counts.value(state, info) else { return false };
            all_there &= counts.at(value) + more > 0;
        }
        all_there || *allows_first_pod
    }

    fn satisfies_anti_affinity(&self, info: &NodeInfo) -> bool {
        let Base { state, without, .. } = &*self.base;
        without.iter().enumerate().all(|(index, counts)| {
            let more = self.simulated.as_ref().map_or(0, |simulated| simulated.without[index]);
            counts.value(state, info).is_none_or(|value| counts.at(value) + more <= 0)
        })
    }

    fn satisfies_existing_anti_affinity(&self, info: &NodeInfo) -> bool {
        let Base { state, existing_anti_affinity, .. } = &*self.base;
        let topology = state.cache.topology();
        let weights = |weights: &&TermWeights| {
            topology.value(weights.column, info.index).map_or(0, |value| weights.at(value))
        };
        match &self.simulated {
            None => existing_anti_affinity.iter().all(|index| weights(index) <= 0),
            // On one node it makes no difference by which term they are counted.
            Some(simulated) => {
                existing_anti_affinity.iter().map(weights).sum::<i64>() + simulated.existing_anti_affinity
                    <= 0
            }
        }
    }

    fn simulate(&mut self, other: &Pod, info: &NodeInfo, by: i64) {
        let Base { state, pod, required, anti_required, .. } = &*self.base;
        let Some(node) = &info.node else { return };
        let simulated = self.simulated.get_or_insert_with(|| SimulatedCounts {
            without: vec![0; anti_required.len()],
            ..SimulatedCounts::default()
        });
        if all_match(state, required, other) {
            simulated.with += by;
        }
        let of_namespace = state.workloads.namespace_labels(other.namespace());
        for (term, simulated) in anti_required.iter().zip(&mut simulated.without) {
            if term.matches(other.namespace(), &other.labels, of_namespace) {
                *simulated += by;
            }
        }
        let of_own = state.workloads.namespace_labels(pod.namespace());
        for term in other.affinity.iter().flat_map(|affinity| &affinity.anti_required) {
            if term.matches(pod.namespace(), &pod.labels, of_own)
                && node.labels.contains_key(&term.topology_key)
            {
                simulated.existing_anti_affinity += by;
            }
        }
    }
}

impl<'w> NodeFilter<'w> for AffinityFilter<'w> {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection> {
        if !self.satisfies_affinity(info) {
            return Err(Rejection::unresolvable(AFFINITY_REASON));
        }
        if !self.satisfies_anti_affinity(info) {
            return Err(Rejection::resolvable(ANTI_AFFINITY_REASON));
        }
        if !self.satisfies_existing_anti_affinity(info) {
            return Err(Rejection::resolvable(EXISTING_ANTI_AFFINITY_REASON));
        }
        Ok(())
    }

    fn add_pod(&mut self, pod: &Pod, info: &NodeInfo) {
        self.simulate(pod, info, 1);
    }

    fn remove_pod(&mut self, pod: &Pod, info: &NodeInfo) {
        self.simulate(pod, info, -1);
    }

    fn boxed(&self) -> Filter<'w> {
        Box::new(self.clone())
    }
}
