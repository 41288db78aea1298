//! How many pods on each node are of a kind that somebody asked about, kept up to date pod by pod.
//!
//! Pods of one workload ask the same question one after another. The first answer costs a look at every pod
//! of the cluster, each further one nothing.

use std::collections::HashMap;

use coracle_meta::selector::labels::Selector;

use crate::cache::node_info::{NodeIndex, NodeInfo};
use crate::view::Pod;

/// Questions whose answers are kept. Beyond that the one that was not asked for the longest is forgotten,
/// and answered anew when it is asked again. At 5 000 nodes an answer is 20 KB.
const MAX_QUESTIONS: usize = 512;

/// In which namespaces pods are meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Namespaces {
    All,
    Only(Box<[Box<str>]>),
}

impl Namespaces {
    /// Just one.
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

/// Which pods are meant: those for which everything is true.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) all_of: Box<[(Namespaces, Selector)]>,
    /// Pods that are going do not count.
    pub(crate) staying_only: bool,
}

impl Question {
    /// Whether a pod is meant.
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

/// The answers to all questions that were asked lately.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    answers: HashMap<Question, Answer>,
    asked: u64,
}

impl Matches {
    /// Makes sure that a question is answered.
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

    /// How many of the pods that are meant are on each node; none if nobody made sure that it is answered.
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
