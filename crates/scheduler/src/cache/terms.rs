//! What the pods that are there say about others, counted by where they are.
//!
//! Pods of one workload say the same, so there are few different terms even where there are many pods. Each
//! is compared once with a pod that is to be scheduled, however many pods say it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cache::node_info::{NodeIndex, NodeInfo};
use crate::cache::topology::{ColumnId, Topology, ValueId};
use crate::view::{Pod, Term};

/// How much is said at each value of the term's label.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) column: ColumnId,
    by_value: Vec<i64>,
    /// How many times pods say it, wherever they are.
    speakers: usize,
}

impl Said {
    /// How much is said where a label has this value.
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

/// Terms of one sort.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    said: HashMap<Arc<Term>, Said>,
}

impl Terms {
    /// Every term, and where it is said.
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

/// Where a pod is.
pub(super) struct Place<'a> {
    pub(super) topology: &'a mut Topology,
    pub(super) nodes: &'a [NodeInfo],
    pub(super) index: NodeIndex,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct TermIndex {
    /// Whom pods cannot bear near them, by how many of them.
    pub(crate) anti_required: Terms,
    /// Whom pods must have near them, by how many of them.
    pub(crate) required: Terms,
    /// Whom pods would like near them, by how much; less than nothing for those they would not.
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
