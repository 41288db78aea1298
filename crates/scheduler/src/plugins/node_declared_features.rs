//! NodeDeclaredFeatures: a node must have declared the features that a pod requires.

use std::sync::Arc;

use crate::cache::NodeInfo;
use crate::cluster_state::ClusterState;
use crate::framework::{About, ClusterEvent, Filter, NodeFilter, Plugin, PreFilter, Rejection};
use crate::view::Pod;

const REASON: &str = "node(s) didn't match Pod's required features";

pub(crate) struct NodeDeclaredFeatures;

impl Plugin for NodeDeclaredFeatures {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatures"
    }

    fn pre_filter<'w>(&'w self, _state: &'w ClusterState, pod: &'w Arc<Pod>) -> PreFilter<'w> {
        if pod.needed_features.is_empty() {
            return PreFilter::Skip;
        }
        PreFilter::Filter(Box::new(Declared { needed: pod.needed_features }))
    }

    fn wants(&self, about: About) -> bool {
        about == About::Node
    }

    fn hint(&self, _state: &ClusterState, _pod: &Pod, event: &ClusterEvent) -> bool {
        // The features a pod requires cannot change.
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::NodeChanged { changes, .. } => changes.features,
            _ => false,
        }
    }
}

#[derive(Clone)]
struct Declared {
    needed: &'static [&'static str],
}

impl<'w> NodeFilter<'w> for Declared {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection> {
        let declared = info.node.as_ref().map_or(&[][..], |node| &node.declared_features);
        let is_declared = |needed: &&str| declared.iter().any(|feature| **feature == **needed);
        if self.needed.iter().all(is_declared) { Ok(()) } else { Err(Rejection::unresolvable(REASON)) }
    }

    fn boxed(&self) -> Filter<'w> {
        Box::new(self.clone())
    }
}
