//! Counts, per node, of the pods that match a selector; updated with each pod.
//!
//! Pods of one workload use the same selectors. The first use scans all pods of the cluster, later ones are
//! lookups.

use std::collections::HashMap;

use coracle_meta::selector::labels::Selector;

use crate::cache::node_info::{NodeIndex, NodeInfo};
use crate::view::Pod;

/// Limit of cached selections; beyond it the least recently used is dropped and recomputed when it is next
/// used. At 5 000 nodes one takes 20 KB.
const MAX_SELECTIONS: usize = 512;

/// Namespaces to which a selection applies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Namespaces {
    All,
    Only(Box<[Box<str>]>),
}

impl Namespaces {
    pub(crate) fn one(namespace: &str) -> Self {
        Self::Only(Box::new([namespace.into()]))
    }

    fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(listed) => listed.iter().any(|one| **one == *namespace),
        }
    }
}

/// A selection of pods: those that match all of its selectors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodSelection {
    pub(crate) all_of: Box<[(Namespaces, Selector)]>,
    /// Excludes terminating pods.
    pub(crate) exclude_terminating: bool,
}

impl PodSelection {
    pub(crate) fn matches(&self, pod: &Pod) -> bool {
        !(self.exclude_terminating && pod.is_terminating())
            && (self.all_of.iter()).all(|(namespaces, selector)| {
                namespaces.contains(&pod.metadata.namespace) && selector.matches(&pod.labels)
            })
    }
}

#[derive(Debug)]
struct NodeCounts {
    by_node: Vec<u32>,
    last_used: u64,
}

/// The counts of recently used selections.
#[derive(Debug, Default)]
pub(crate) struct SelectionCounts {
    by_selection: HashMap<PodSelection, NodeCounts>,
    uses: u64,
}

impl SelectionCounts {
    /// Computes the counts of a selection if they are not cached.
    pub(super) fn ensure(&mut self, selection: &PodSelection, nodes: &[NodeInfo]) {
        self.uses += 1;
        if let Some(counts) = self.by_selection.get_mut(selection) {
            counts.last_used = self.uses;
            return;
        }
        if self.by_selection.len() >= MAX_SELECTIONS {
            let oldest = self.by_selection.iter().min_by_key(|(_, counts)| counts.last_used);
            let oldest = oldest.map(|(selection, _)| selection.clone());
            oldest.map(|selection| self.by_selection.remove(&selection));
        }
        let by_node = nodes.iter().map(|info| count(selection, info)).collect();
        self.by_selection.insert(selection.clone(), NodeCounts { by_node, last_used: self.uses });
    }

    /// Number of matching pods on each node; none unless [`Self::ensure`] was called before.
    pub(crate) fn by_node(&self, selection: &PodSelection) -> Option<&[u32]> {
        self.by_selection.get(selection).map(|counts| &*counts.by_node)
    }

    pub(super) fn add(&mut self, index: NodeIndex, pod: &Pod) {
        self.change(index, pod, |count| *count += 1);
    }

    pub(super) fn remove(&mut self, index: NodeIndex, pod: &Pod) {
        self.change(index, pod, |count| *count = count.saturating_sub(1));
    }

    fn change(&mut self, index: NodeIndex, pod: &Pod, change: impl Fn(&mut u32)) {
        let slot = index.slot();
        for (selection, counts) in &mut self.by_selection {
            if selection.matches(pod) {
                if counts.by_node.len() <= slot {
                    counts.by_node.resize(slot + 1, 0);
                }
                change(&mut counts.by_node[slot]);
            }
        }
    }
}

fn count(selection: &PodSelection, info: &NodeInfo) -> u32 {
    let matching = info.pods.iter().filter(|pod| selection.matches(pod)).count();
    u32::try_from(matching).unwrap_or(u32::MAX)
}
