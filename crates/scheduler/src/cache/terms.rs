//! Affinity and anti-affinity terms of existing pods, with the number of pods that have them per topology
//! value.
//!
//! Pods of one workload have the same terms, so there are few distinct terms even with many pods. Each
//! distinct term is matched against an incoming pod once, regardless of the number of pods that have it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cache::node_info::{NodeIndex, NodeInfo};
use crate::cache::topology::{ColumnId, Topology, ValueId};
use crate::view::{Pod, Term};

/// Sum of a term's weights at each value of its topology key.
#[derive(Debug)]
pub(crate) struct TermWeights {
    pub(crate) column: ColumnId,
    by_value: Vec<i64>,
    /// Number of pods that have the term, on any node.
    pods: usize,
}

impl TermWeights {
    /// Sum of the weights at a value of the topology key.
    pub(crate) fn at(&self, value: ValueId) -> i64 {
        self.by_value.get(value.slot()).copied().unwrap_or(0)
    }

    fn change(&mut self, value: Option<ValueId>, by: i64) {
        let Some(value) = value else { return };
        if self.by_value.len() <= value.slot() {
            self.by_value.resize(value.slot() + 1, 0);
        }
        self.by_value[value.slot()] += by;
    }
}

/// Distinct terms of one type.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    by_term: HashMap<Arc<Term>, TermWeights>,
}

impl Terms {
    /// Every term with its weights.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Term, &TermWeights)> {
        self.by_term.iter().map(|(term, weights)| (&**term, weights))
    }

    fn add(&mut self, location: &mut PodLocation<'_>, term: &Arc<Term>, weight: i64) {
        let weights = self.by_term.entry(Arc::clone(term)).or_insert_with(|| {
            let column = location.topology.retain(&term.topology_key, location.nodes);
            TermWeights { column, by_value: Vec::new(), pods: 0 }
        });
        weights.pods += 1;
        weights.change(location.topology.value(weights.column, location.index), weight);
    }

    fn remove(&mut self, location: &mut PodLocation<'_>, term: &Arc<Term>, weight: i64) {
        let Some(weights) = self.by_term.get_mut(term) else { return };
        weights.change(location.topology.value(weights.column, location.index), -weight);
        weights.pods -= 1;
        if weights.pods == 0 {
            location.topology.release(weights.column);
            self.by_term.remove(term);
        }
    }
}

/// The node whose pod is counted, and the topology it is in.
pub(super) struct PodLocation<'a> {
    pub(super) topology: &'a mut Topology,
    pub(super) nodes: &'a [NodeInfo],
    pub(super) index: NodeIndex,
}

/// All affinity terms of existing pods, by type.
#[derive(Debug, Default)]
pub(crate) struct TermIndex {
    /// Required anti-affinity, with the number of pods.
    pub(crate) anti_required: Terms,
    /// Required affinity, with the number of pods.
    pub(crate) required: Terms,
    /// Preferred affinity with its weight, and preferred anti-affinity with its negated weight.
    pub(crate) preferred: Terms,
}

impl TermIndex {
    pub(super) fn add(&mut self, mut location: PodLocation<'_>, pod: &Pod) {
        let Some(affinity) = &pod.affinity else { return };
        affinity.anti_required.iter().for_each(|term| self.anti_required.add(&mut location, term, 1));
        affinity.required.iter().for_each(|term| self.required.add(&mut location, term, 1));
        for wish in &affinity.preferred {
            self.preferred.add(&mut location, &wish.term, wish.weight);
        }
        for wish in &affinity.anti_preferred {
            self.preferred.add(&mut location, &wish.term, -wish.weight);
        }
    }

    pub(super) fn remove(&mut self, mut location: PodLocation<'_>, pod: &Pod) {
        let Some(affinity) = &pod.affinity else { return };
        affinity.anti_required.iter().for_each(|term| self.anti_required.remove(&mut location, term, 1));
        affinity.required.iter().for_each(|term| self.required.remove(&mut location, term, 1));
        for wish in &affinity.preferred {
            self.preferred.remove(&mut location, &wish.term, wish.weight);
        }
        for wish in &affinity.anti_preferred {
            self.preferred.remove(&mut location, &wish.term, -wish.weight);
        }
    }
}
