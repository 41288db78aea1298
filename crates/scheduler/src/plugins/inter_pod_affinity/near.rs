//! Counts of the pods that match affinity terms, per topology value.

use std::sync::Arc;

use coracle_meta::selector::labels::Selector;

use crate::cache::{ColumnId, Namespaces, NodeInfo, Question, ValueId};
use crate::cluster_state::ClusterState;
use crate::view::{Affinity, Term};

/// Namespaces and selector of a term, with the namespace selector resolved to names.
fn meant(state: &ClusterState, term: &Term) -> (Namespaces, Selector) {
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
pub(super) fn all_of(state: &ClusterState, terms: &[Arc<Term>]) -> Question {
    Question { all_of: terms.iter().map(|term| meant(state, term)).collect(), staying_only: false }
}

/// The pods that match one term.
pub(super) fn one(state: &ClusterState, term: &Term) -> Question {
    Question { all_of: Box::new([meant(state, term)]), staying_only: false }
}

/// All selections of pods that an affinity needs.
pub(super) fn questions(state: &ClusterState, affinity: &Affinity) -> Vec<Question> {
    let mut questions = Vec::new();
    if !affinity.required.is_empty() {
        questions.push(all_of(state, &affinity.required));
    }
    let wished = affinity.preferred.iter().chain(&affinity.anti_preferred).map(|wish| &wish.term);
    questions.extend(affinity.anti_required.iter().chain(wished).map(|term| one(state, term)));
    questions
}

/// Number of matching pods at each value of a topology key.
pub(super) struct Near {
    pub(super) column: Option<ColumnId>,
    by_value: Vec<i64>,
    /// True if any node with the topology key has a matching pod.
    pub(super) is_anybody: bool,
}

impl Near {
    /// Counts the matching pods by the values of a topology key.
    pub(super) fn new(state: &ClusterState, question: &Question, topology_key: &str) -> Self {
        let topology = state.cache.topology();
        let column = topology.column(topology_key);
        let mut near = Self { column, by_value: Vec::new(), is_anybody: false };
        let (Some(column), Some(by_node)) = (column, state.cache.matches().by_node(question)) else {
            return near;
        };
        near.by_value = vec![0; topology.width(column)];
        for index in state.cache.known_order() {
            let count = by_node.get(index.slot()).copied().unwrap_or(0);
            if count > 0
                && let Some(value) = topology.value(column, *index)
            {
                near.by_value[value.slot()] += i64::from(count);
                near.is_anybody = true;
            }
        }
        near
    }

    pub(super) fn value(&self, state: &ClusterState, info: &NodeInfo) -> Option<ValueId> {
        state.cache.topology().value(self.column?, info.index)
    }

    pub(super) fn at(&self, value: ValueId) -> i64 {
        self.by_value.get(value.slot()).copied().unwrap_or(0)
    }
}
