//! NodePorts: a host port of a node can be used by one pod only.

use std::sync::Arc;

use crate::cache::{NodeInfo, ports_conflict};
use crate::cluster_state::ClusterState;
use crate::framework::{About, ClusterEvent, Filter, NodeFilter, Plugin, PreFilter, Rejection};
use crate::view::Pod;
use crate::view::pod::HostPort;

const REASON: &str = "node(s) didn't have free ports for the requested pod ports";

pub(crate) struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn pre_filter<'w>(&'w self, _state: &'w ClusterState, pod: &'w Arc<Pod>) -> PreFilter<'w> {
        if pod.host_ports.is_empty() {
            return PreFilter::Skip;
        }
        PreFilter::Filter(Box::new(Free { wanted: &pod.host_ports }))
    }

    fn wants(&self, about: About) -> bool {
        matches!(about, About::Node | About::PodGone)
    }

    fn hint(&self, _state: &ClusterState, pod: &Pod, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::PodGone(gone) => {
                let collides =
                    |port: &HostPort| gone.host_ports.iter().any(|taken| ports_conflict(port, taken));
                gone.occupies_node() && pod.host_ports.iter().any(collides)
            }
            _ => false,
        }
    }
}

#[derive(Clone)]
struct Free<'w> {
    wanted: &'w [HostPort],
}

impl<'w> NodeFilter<'w> for Free<'w> {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection> {
        if info.has_any_in_use(self.wanted) { Err(Rejection::resolvable(REASON)) } else { Ok(()) }
    }

    fn boxed(&self) -> Filter<'w> {
        Box::new(self.clone())
    }
}
