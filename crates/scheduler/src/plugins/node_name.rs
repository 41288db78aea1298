//! NodeName: pods with `spec.nodeName` fit that node only.

use std::sync::Arc;

use crate::cache::NodeInfo;
use crate::cluster_state::ClusterState;
use crate::framework::{About, ClusterEvent, Filter, NodeFilter, Plugin, PreFilter, Rejection};
use crate::view::Pod;

const REASON: &str = "node(s) didn't match the requested node name";

pub(crate) struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn pre_filter<'w>(&'w self, _state: &'w ClusterState, pod: &'w Arc<Pod>) -> PreFilter<'w> {
        if pod.node_name.is_empty() {
            return PreFilter::Skip;
        }
        PreFilter::Filter(Box::new(Named { name: &pod.node_name }))
    }

    fn wants(&self, about: About) -> bool {
        about == About::Node
    }

    fn hint(&self, _state: &ClusterState, _pod: &Pod, event: &ClusterEvent) -> bool {
        matches!(event, ClusterEvent::NodeAdded(_))
    }
}

#[derive(Clone)]
struct Named<'w> {
    name: &'w str,
}

impl<'w> NodeFilter<'w> for Named<'w> {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection> {
        match &info.node {
            Some(node) if *node.metadata.name == *self.name => Ok(()),
            _ => Err(Rejection::unresolvable(REASON)),
        }
    }

    fn boxed(&self) -> Filter<'w> {
        Box::new(self.clone())
    }
}
