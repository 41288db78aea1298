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
const MAX_QUESTIONS: usize = 512;

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
pub(crate) struct Question {
    pub(crate) all_of: Box<[(Namespaces, Selector)]>,
    /// Excludes terminating pods.
    pub(crate) staying_only: bool,
}

impl Question {
    pub(crate) fn means(&self, pod: &Pod) -> bool {
        !(self.staying_only && pod.is_terminating())
            && (self.all_of.iter()).all(|(namespaces, selector)| {
                namespaces.contains(&pod.metadata.namespace) && selector.matches(&pod.labels)
            })
    }
}

#[derive(Debug)]
struct Answer {
    by_node: Vec<u32>,
    last_asked: u64,
}

/// The counts of recently used selections.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    answers: HashMap<Question, Answer>,
    asked: u64,
}

impl Matches {
    /// Computes the counts of a selection if they are not cached.
    pub(super) fn ensure(&mut self, question: &Question, nodes: &[NodeInfo]) {
        self.asked += 1;
        if let Some(answer) = self.answers.get_mut(question) {
            answer.last_asked = self.asked;
            return;
        }
        if self.answers.len() >= MAX_QUESTIONS {
            let oldest = self.answers.iter().min_by_key(|(_, answer)| answer.last_asked);
            let oldest = oldest.map(|(question, _)| question.clone());
            oldest.map(|question| self.answers.remove(&question));
        }
        let by_node = nodes.iter().map(|info| count(question, info)).collect();
        self.answers.insert(question.clone(), Answer { by_node, last_asked: self.asked });
    }

    /// Number of matching pods on each node; none unless [`Self::ensure`] was called before.
    pub(crate) fn by_node(&self, question: &Question) -> Option<&[u32]> {
        self.answers.get(question).map(|answer| &*answer.by_node)
    }

    pub(super) fn add(&mut self, index: NodeIndex, pod: &Pod) {
        self.change(index, pod, |count| *count += 1);
    }

    pub(super) fn remove(&mut self, index: NodeIndex, pod: &Pod) {
        self.change(index, pod, |count| *count = count.saturating_sub(1));
    }

    fn change(&mut self, index: NodeIndex, pod: &Pod, change: impl Fn(&mut u32)) {
        let slot = index.slot();
        for (question, answer) in &mut self.answers {
            if question.means(pod) {
                if answer.by_node.len() <= slot {
                    answer.by_node.resize(slot + 1, 0);
                }
                change(&mut answer.by_node[slot]);
            }
        }
    }
}

fn count(question: &Question, info: &NodeInfo) -> u32 {
    let meant = info.pods.iter().filter(|pod| question.means(pod)).count();
    u32::try_from(meant).unwrap_or(u32::MAX)
}
