//! Counts of the pods that match affinity terms, per topology value.

use std::sync::Arc;

use coracle_meta::selector::labels::Selector;

use crate::cache::{ColumnId, Namespaces, NodeInfo, PodSelection, ValueId};
use crate::cluster_state::ClusterState;
use crate::view::{Affinity, Term};

/// Namespaces and selector of a term, with the namespace selector resolved to names.
fn resolve(state: &ClusterState, term: &Term) -> (Namespaces, Selector) {
    let selector = term.selector.clone();
    if term.namespace_selector.is_everything() {
        return (Namespaces::All, selector);
    }
    let mut names = term.namespaces.to_vec();
    if !term.namespace_selector.is_nothing() {
        let all = state.workloads.namespaces.iter();
        let selected = all.filter(|(_, namespace)| term.namespace_selector.matches(&namespace.labels));
        names.extend(selected.map(|(name, _)| name.clone()));
        names.sort_unstable();
        names.dedup();
    }
    (Namespaces::Only(names.into()), selector)
}

/// The pods that match all of the terms.
pub(super) fn all_of(state: &ClusterState, terms: &[Arc<Term>]) -> PodSelection {
    PodSelection {
        all_of: terms.iter().map(|term| resolve(state, term)).collect(),
        exclude_terminating: false,
    }
}

/// The pods that match one term.
pub(super) fn one(state: &ClusterState, term: &Term) -> PodSelection {
    PodSelection { all_of: Box::new([resolve(state, term)]), exclude_terminating: false }
}

/// All selections of pods that an affinity needs.
pub(super) fn selections(state: &ClusterState, affinity: &Affinity) -> Vec<PodSelection> {
    let mut selections = Vec::new();
    if !affinity.required.is_empty() {
        selections.push(all_of(state, &affinity.required));
    }
    let wished = affinity.preferred.iter().chain(&affinity.anti_preferred).map(|wish| &wish.term);
    selections.extend(affinity.anti_required.iter().chain(wished).map(|term| one(state, term)));
    selections
}

/// Number of matching pods at each value of a topology key.
pub(super) struct TopologyCounts {
    pub(super) column: Option<ColumnId>,
    by_value: Vec<i64>,
    /// True if any node with the topology key has a matching pod.
    pub(super) has_any: bool,
}

impl TopologyCounts {
    /// Counts the matching pods by the values of a topology key.
    pub(super) fn new(state: &ClusterState, selection: &PodSelection, topology_key: &str) -> Self {
        let topology = state.cache.topology();
        let column = topology.column(topology_key);
        let mut counts = Self { column, by_value: Vec::new(), has_any: false };
        let (Some(column), Some(by_node)) = (column, state.cache.selection_counts().by_node(selection))
        else {
            return counts;
        };
        counts.by_value = vec![0; topology.width(column)];
        for index in state.cache.cached_order() {
            let count = by_node.get(index.slot()).copied().unwrap_or(0);
            if count > 0
                && let Some(value) = topology.value(column, *index)
            {
                counts.by_value[value.slot()] += i64::from(count);
                counts.has_any = true;
            }
        }
        counts
    }

    pub(super) fn value(&self, state: &ClusterState, info: &NodeInfo) -> Option<ValueId> {
        state.cache.topology().value(self.column?, info.index)
    }

    pub(super) fn at(&self, value: ValueId) -> i64 {
        self.by_value.get(value.slot()).copied().unwrap_or(0)
    }
}
