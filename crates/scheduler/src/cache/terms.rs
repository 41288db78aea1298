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
pub(crate) struct Said {
    pub(crate) column: ColumnId,
    by_value: Vec<i64>,
    /// Number of pods that have the term, on any node.
    speakers: usize,
}

impl Said {
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
    said: HashMap<Arc<Term>, Said>,
}

impl Terms {
    /// Every term with its weights.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Term, &Said)> {
        self.said.iter().map(|(term, said)| (&**term, said))
    }

    fn add(&mut self, place: &mut Place<'_>, term: &Arc<Term>, weight: i64) {
        let said = self.said.entry(Arc::clone(term)).or_insert_with(|| {
            let column = place.topology.hold(&term.topology_key, place.nodes);
            Said { column, by_value: Vec::new(), speakers: 0 }
        });
        said.speakers += 1;
        said.change(place.topology.value(said.column, place.index), weight);
    }

    fn remove(&mut self, place: &mut Place<'_>, term: &Arc<Term>, weight: i64) {
        let Some(said) = self.said.get_mut(term) else { return };
        said.change(place.topology.value(said.column, place.index), -weight);
        said.speakers -= 1;
        if said.speakers == 0 {
            place.topology.release(said.column);
            self.said.remove(term);
        }
    }
}

/// The node whose pod is counted, and the topology it is in.
pub(super) struct Place<'a> {
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
    pub(super) fn add(&mut self, mut place: Place<'_>, pod: &Pod) {
        let Some(affinity) = &pod.affinity else { return };
        affinity.anti_required.iter().for_each(|term| self.anti_required.add(&mut place, term, 1));
        affinity.required.iter().for_each(|term| self.required.add(&mut place, term, 1));
        for wish in &affinity.preferred {
            self.preferred.add(&mut place, &wish.term, wish.weight);
        }
        for wish in &affinity.anti_preferred {
            self.preferred.add(&mut place, &wish.term, -wish.weight);
        }
    }

    pub(super) fn remove(&mut self, mut place: Place<'_>, pod: &Pod) {
        let Some(affinity) = &pod.affinity else { return };
        affinity.anti_required.iter().for_each(|term| self.anti_required.remove(&mut place, term, 1));
        affinity.required.iter().for_each(|term| self.required.remove(&mut place, term, 1));
        for wish in &affinity.preferred {
            self.preferred.remove(&mut place, &wish.term, wish.weight);
        }
        for wish in &affinity.anti_preferred {
            self.preferred.remove(&mut place, &wish.term, -wish.weight);
        }
    }
}
