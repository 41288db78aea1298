//! NodeAffinity: node selector and node affinity of pods.

use std::sync::Arc;

use crate::cache::{NodeIndex, NodeInfo};
use crate::cluster_state::ClusterState;
use crate::framework::{
    About, ClusterEvent, Filter, NodeFilter, NodeScore, Plugin, PreFilter, PreScore, Rejection,
    normalize_by_largest,
};
use crate::view::affinity::{NodeSelectorTerm, Weighted};
use crate::view::{Node, Pod};

const REASON: &str = "node(s) didn't match Pod's node affinity/selector";
const CONFLICT: &str = "pod affinity terms conflict";

pub(crate) struct NodeAffinity;

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn pre_filter<'w>(&'w self, state: &'w ClusterState, pod: &'w Arc<Pod>) -> PreFilter<'w> {
        let required = pod.affinity.as_ref().and_then(|affinity| affinity.node_required.as_ref());
        if required.is_none() && pod.node_selector.is_empty() {
            return PreFilter::Skip;
        }
        let filter = Box::new(Selected { pod });
        match required.and_then(|required| required.names()) {
            Some(names) if names.is_empty() => PreFilter::Reject(Rejection::unresolvable(CONFLICT)),
            Some(names) => {
                let nodes = names.iter().filter_map(|name| state.cache.find(name));
                PreFilter::Only(nodes.map(|info| info.index).collect(), filter)
            }
            None => PreFilter::Filter(filter),
        }
    }

    fn pre_score<'w>(
        &'w self,
        _state: &'w ClusterState,
        pod: &'w Arc<Pod>,
        _nodes: &[NodeIndex],
    ) -> PreScore<'w> {
        match &pod.affinity {
            Some(affinity) if !affinity.node_preferred.is_empty() => {
                PreScore::Score(Box::new(Preferred { terms: &affinity.node_preferred }))
            }
            _ => PreScore::Skip,
        }
    }

    fn wants(&self, about: About) -> bool {
        about == About::Node
    }

    fn hint(&self, _state: &ClusterState, pod: &Pod, event: &ClusterEvent) -> bool {
        let Some((old, new)) = event.node() else { return false };
        is_wanted(pod, new) && old.is_none_or(|old| !is_wanted(pod, old))
    }
}

/// True if a node matches the pod's node selector and required node affinity.
pub(crate) fn is_wanted(pod: &Pod, node: &Node) -> bool {
    pod.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && (pod.affinity.as_ref())
            .and_then(|affinity| affinity.node_required.as_ref())
            .is_none_or(|required| required.matches(node))
}

#[derive(Clone)]
struct Selected<'w> {
    pod: &'w Pod,
}

impl<'w> NodeFilter<'w> for Selected<'w> {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection> {
        match &info.node {
            Some(node) if is_wanted(self.pod, node) => Ok(()),
            _ => Err(Rejection::unresolvable(REASON)),
        }
    }

    fn boxed(&self) -> Filter<'w> {
        Box::new(self.clone())
    }
}

struct Preferred<'w> {
    terms: &'w [Weighted<NodeSelectorTerm>],
}

impl NodeScore for Preferred<'_> {
    fn score(&self, info: &NodeInfo) -> i64 {
        let Some(node) = &info.node else { return 0 };
        let granted = self.terms.iter().filter(|wish| wish.term.matches(&node.labels, &node.metadata.name));
        granted.map(|wish| wish.weight).sum()
    }

    fn normalize(&self, scores: &mut [i64]) {
        normalize_by_largest(scores, false);
    }
}
