//! PodTopologySpread filter: rejects nodes on which the skew would exceed `maxSkew`.

use std::sync::Arc;

use super::constraint::ConstraintCounts;
use crate::cache::{NodeInfo, Topology, ValueId};
use crate::cluster_state::ClusterState;
use crate::framework::{Filter, NodeFilter, Rejection};
use crate::view::Pod;
use crate::view::spread::SpreadConstraint;

const REASON: &str = "node(s) didn't match pod topology spread constraints";
const MISSING_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

/// State that is not affected by simulated pods.
struct Base<'w> {
    state: &'w ClusterState,
    pod: &'w Pod,
    spreads: Vec<ConstraintSpread<'w>>,
}

/// Distribution of the pods that one constraint counts.
struct ConstraintSpread<'w> {
    counts: ConstraintCounts<'w>,
    /// Number of pods at each topology value; none where no node is in scope.
    by_value: Vec<Option<i64>>,
    /// Number of topology values in scope.
    domains: i64,
    /// The minimum count with its topology value,
    fewest: Option<(ValueId, i64)>,
    /// and the minimum of all other values.
    fewest_elsewhere: Option<i64>,
    /// The constraint matches the incoming pod itself.
    matches_itself: bool,
}

/// The filter of the plugin.
#[derive(Clone)]
pub(super) struct SpreadFilter<'w> {
    base: Arc<Base<'w>>,
    /// For each constraint, the topology value with simulated pods and the change of its count. Simulations
    /// affect one node only.
    simulated: Vec<Option<(ValueId, i64)>>,
}

impl<'w> SpreadFilter<'w> {
    pub(super) fn new(state: &'w ClusterState, pod: &'w Pod, constraints: Vec<SpreadConstraint>) -> Self {
        let counts: Vec<_> =
            constraints.into_iter().map(|constraint| ConstraintCounts::new(state, pod, constraint)).collect();
        let mut spreads: Vec<_> = counts
            .into_iter()
            .map(|counts| ConstraintSpread::new(state.cache.topology(), pod, counts))
            .collect();
        for index in state.cache.cached_order() {
            let info = state.cache.info(*index);
            if has_all_labels(&spreads, state.cache.topology(), info) {
                spreads.iter_mut().for_each(|spread| spread.count(state.cache.topology(), pod, info));
            }
        }
        spreads.iter_mut().for_each(ConstraintSpread::find_fewest);
        let simulated = vec![None; spreads.len()];
        Self { base: Arc::new(Base { state, pod, spreads }), simulated }
    }

    fn simulate(&mut self, other: &Pod, info: &NodeInfo, by: i64) {
        let Base { state, pod, spreads } = &*self.base;
        let topology = state.cache.topology();
        let Some(node) = &info.node else { return };
        if other.namespace() != pod.namespace() || !has_all_labels(spreads, topology, info) {
            return;
        }
        for (spread, simulated) in spreads.iter().zip(&mut self.simulated) {
            if spread.counts.constraint.selector.matches(&other.labels)
                && spread.counts.includes(pod, node)
                && let Some(value) = spread.value(topology, info)
            {
                let so_far = simulated.map_or(0, |(_, so_far)| so_far);
                *simulated = Some((value, so_far + by));
            }
        }
    }
}

impl<'w> NodeFilter<'w> for SpreadFilter<'w> {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection> {
        let Base { state, spreads, .. } = &*self.base;
        for (spread, simulated) in spreads.iter().zip(&self.simulated) {
            let Some(value) = spread.value(state.cache.topology(), info) else {
                return Err(Rejection::unresolvable(MISSING_LABEL));
            };
            if spread.skew_at(value, *simulated) > spread.counts.constraint.max_skew {
                return Err(Rejection::resolvable(REASON));
            }
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

fn has_all_labels(spreads: &[ConstraintSpread<'_>], topology: &Topology, info: &NodeInfo) -> bool {
    spreads.iter().all(|spread| spread.value(topology, info).is_some())
}

impl<'w> ConstraintSpread<'w> {
    fn new(topology: &Topology, pod: &Pod, counts: ConstraintCounts<'w>) -> Self {
        let width = counts.column.map_or(0, |column| topology.width(column));
        let matches_itself = counts.constraint.selector.matches(&pod.labels);
        Self {
            counts,
            by_value: vec![None; width],
            domains: 0,
            fewest: None,
            fewest_elsewhere: None,
            matches_itself,
        }
    }

    fn value(&self, topology: &Topology, info: &NodeInfo) -> Option<ValueId> {
        topology.value(self.counts.column?, info.index)
    }

    fn count(&mut self, topology: &Topology, pod: &Pod, info: &NodeInfo) {
        let (Some(value), Some(node)) = (self.value(topology, info), &info.node) else { return };
        if self.counts.includes(pod, node) {
            let on_node = self.counts.on_node(info);
            *self.by_value[value.slot()].get_or_insert(0) += on_node;
            // A placeholder until all nodes are counted.
            self.fewest.get_or_insert((value, 0));
        }
    }

    fn find_fewest(&mut self) {
        let Some((anywhere, _)) = self.fewest else { return };
        let counts = || self.by_value.iter().enumerate().filter_map(|(slot, count)| Some((slot, (*count)?)));
        self.domains = i64::try_from(counts().count()).unwrap_or(i64::MAX);
        let Some((slot, count)) = counts().min_by_key(|(_, count)| *count) else { return };
        self.fewest_elsewhere = counts().filter(|(other, _)| *other != slot).map(|(_, count)| count).min();
        self.fewest = Some((anywhere.at_slot(slot), count));
    }

    /// Skew if the pod were placed at this topology value.
    fn skew_at(&self, value: ValueId, simulated: Option<(ValueId, i64)>) -> i64 {
        let counted = self.by_value.get(value.slot()).copied().flatten().unwrap_or(0);
        let here = counted + simulated.filter(|(at, _)| *at == value).map_or(0, |(_, more)| more);
        here + i64::from(self.matches_itself) - self.fewest(simulated)
    }

    fn fewest(&self, simulated: Option<(ValueId, i64)>) -> i64 {
        if self.domains < self.counts.constraint.min_domains {
            return 0;
        }
        // Without nodes in scope no skew is too large.
        let Some((at, count)) = self.fewest else { return i64::from(i32::MAX) };
        match simulated {
            None => count,
            Some((simulated, more)) if simulated == at => {
                self.fewest_elsewhere.map_or(count + more, |elsewhere| elsewhere.min(count + more))
            }
            Some((simulated, more)) => {
                let there = self.by_value.get(simulated.slot()).copied().flatten().unwrap_or(0) + more;
                count.min(there)
            }
        }
    }
}
