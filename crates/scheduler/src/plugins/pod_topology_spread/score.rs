//! PodTopologySpread score: prefers nodes whose topology domains have fewer matching pods.

use super::constraint::ConstraintCounts;
use crate::cache::{NodeIndex, NodeInfo};
use crate::cluster_state::ClusterState;
use crate::framework::{MAX_NODE_SCORE, NodeScore};
use crate::view::Pod;
use crate::view::node::HOSTNAME;
use crate::view::spread::SpreadConstraint;

/// Score of a node that lacks a required topology key.
const IGNORED: i64 = -1;

/// The scorer of the plugin: raw scores are weighted counts of matching pods, where fewer are better.
pub(super) struct SpreadScore<'w> {
    state: &'w ClusterState,
    /// A node without one of the topology keys is ignored.
    needs_all: bool,
    constraints: Vec<Counted<'w>>,
}

struct Counted<'w> {
    counts: ConstraintCounts<'w>,
    /// Number of pods at each topology value of the feasible nodes. Unused for the hostname key, where the
    /// count of the node itself is the result.
    by_value: Vec<Option<i64>>,
    is_hostname: bool,
    /// Weight of the constraint, which grows with the number of its domains.
    weight: f64,
}

impl<'w> SpreadScore<'w> {
    pub(super) fn new(
        state: &'w ClusterState,
        pod: &Pod,
        constraints: Vec<SpreadConstraint>,
        nodes: &[NodeIndex],
        needs_all: bool,
    ) -> Self {
        let counts = constraints.into_iter().map(|constraint| ConstraintCounts::new(state, pod, constraint));
        let constraints = counts.map(|counts| Counted::new(state, counts)).collect();
        let mut score = Self { state, needs_all, constraints };
        score.weigh(nodes);
        for index in state.cache.cached_order() {
            score.count(pod, state.cache.info(*index));
        }
        score
    }

    fn counts(&self, info: &NodeInfo) -> bool {
        !self.needs_all || self.constraints.iter().all(|counted| counted.slot(self.state, info).is_some())
    }

    /// Computes the domains of the feasible nodes and the weight of each constraint.
    fn weigh(&mut self, nodes: &[NodeIndex]) {
        let (state, mut counting) = (self.state, 0);
        let mut without_value = vec![false; self.constraints.len()];
        for info in nodes.iter().map(|index| state.cache.info(*index)) {
            if !self.counts(info) {
                continue;
            }
            counting += 1;
            for (counted, without) in self.constraints.iter_mut().zip(&mut without_value) {
                match counted.slot(state, info) {
                    Some(slot) => drop(counted.by_value[slot].get_or_insert(0)),
                    None => *without = true,
                }
            }
        }
        for (counted, without) in self.constraints.iter_mut().zip(without_value) {
            let values = counted.by_value.iter().flatten().count() + usize::from(without);
            let size = if counted.is_hostname { counting } else { values };
            counted.weight = ((size + 2) as f64).ln();
        }
    }

    fn count(&mut self, pod: &Pod, info: &NodeInfo) {
        let Some(node) = info.node.as_ref().filter(|_| self.counts(info)) else { return };
        for counted in self.constraints.iter_mut().filter(|counted| !counted.is_hostname) {
            if let Some(slot) = counted.slot(self.state, info)
                && counted.by_value[slot].is_some()
                && counted.counts.includes(pod, node)
            {
                let on_node = counted.counts.on_node(info);
                *counted.by_value[slot].get_or_insert(0) += on_node;
            }
        }
    }
}

impl<'w> Counted<'w> {
    fn new(state: &ClusterState, counts: ConstraintCounts<'w>) -> Self {
        let width = counts.column.map_or(0, |column| state.cache.topology().width(column));
        let is_hostname = &*counts.constraint.topology_key == HOSTNAME;
        Self { counts, by_value: vec![None; width], is_hostname, weight: 0.0 }
    }

    fn slot(&self, state: &ClusterState, info: &NodeInfo) -> Option<usize> {
        state.cache.topology().value(self.counts.column?, info.index).map(|value| value.slot())
    }

    /// Number of pods in the node's domain; none if the node is in no domain.
    fn near(&self, state: &ClusterState, info: &NodeInfo) -> Option<i64> {
        let slot = self.slot(state, info)?;
        if self.is_hostname { Some(self.counts.on_node(info)) } else { self.by_value[slot] }
    }
}

impl NodeScore for SpreadScore<'_> {
    fn score(&self, info: &NodeInfo) -> i64 {
        if !self.counts(info) {
            return IGNORED;
        }
        let near =
            self.constraints.iter().filter_map(|counted| Some((counted, counted.near(self.state, info)?)));
        let sum: f64 = near
            .map(|(counted, near)| {
                near as f64 * counted.weight + (counted.counts.constraint.max_skew - 1) as f64
            })
            .sum();
        #[expect(clippy::cast_possible_truncation, reason = "there are not that many pods")]
        let score = sum.round() as i64;
        score
    }

    fn normalize(&self, scores: &mut [i64]) {
        let counting = || scores.iter().copied().filter(|score| *score != IGNORED);
        let (fewest, most) = (counting().min().unwrap_or(0), counting().max().unwrap_or(0));
        for score in scores {
            *score = match (*score, most) {
                (IGNORED, _) => 0,
                (_, 0) => MAX_NODE_SCORE,
                (near, most) => MAX_NODE_SCORE * (most + fewest - near) / most,
            };
        }
    }
}
