//! One node with the pods assigned to it or assumed on it.

use std::sync::Arc;

use crate::view::pod::{ANY_ADDRESS, HostPort};
use crate::view::{Node, Pod, Resources};

/// Slot of a node in the cache. It is reused for another node after this one is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(u32);

impl NodeIndex {
    pub(super) fn new(slot: usize) -> Self {
        // More than 2³² nodes do not occur.
        Self(u32::try_from(slot).unwrap_or(u32::MAX))
    }

    pub(crate) fn slot(self) -> usize {
        self.0 as usize
    }

    /// An index that belongs to no cache.
    #[cfg(test)]
    pub(crate) fn new_for_test(slot: usize) -> Self {
        Self::new(slot)
    }
}

/// A node and its pods. Clone it to evaluate hypothetical changes, such as preemption.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    pub(crate) index: NodeIndex,
    /// None if the node was deleted before its pods, or its add event has not arrived yet.
    pub(crate) node: Option<Arc<Node>>,
    pub(crate) pods: Vec<Arc<Pod>>,
    /// Sum of the pods' requests.
    pub(crate) requested: Resources,
    /// Sum of the pods' requests with defaults for missing ones, used for scoring.
    pub(crate) assumed_requested: Resources,
    ports: Vec<HostPort>,
}

impl NodeInfo {
    pub(super) fn new(index: NodeIndex) -> Self {
        Self {
            index,
            node: None,
            pods: Vec::new(),
            requested: Resources::default(),
            assumed_requested: Resources::default(),
            ports: Vec::new(),
        }
    }

    /// A node without pods that belongs to no cache.
    pub(crate) fn alone(node: Arc<Node>) -> Self {
        Self { node: Some(node), ..Self::new(NodeIndex(u32::MAX)) }
    }

    /// A node in the given slot.
    #[cfg(test)]
    pub(super) fn at(slot: usize, node: Arc<Node>) -> Self {
        Self { node: Some(node), ..Self::new(NodeIndex::new(slot)) }
    }

    /// The node; none if it was deleted before its pods, or its add event has not arrived yet.
    pub fn node(&self) -> Option<&Arc<Node>> {
        self.node.as_ref()
    }

    /// Its index in the cache, by which plugins identify it.
    pub fn index(&self) -> NodeIndex {
        self.index
    }

    /// The pods assigned to it or assumed on it.
    pub fn pods(&self) -> &[Arc<Pod>] {
        &self.pods
    }

    /// Sum of the requests of its pods.
    pub fn requested(&self) -> &Resources {
        &self.requested
    }

    /// Allocatable resources of the node; nothing if the node does not exist.
    pub fn allocatable(&self) -> &Resources {
        static NOTHING: Resources =
            Resources { milli_cpu: 0, memory: 0, ephemeral_storage: 0, pods: 0, scalars: Vec::new() };
        self.node.as_ref().map_or(&NOTHING, |node| &node.allocatable)
    }

    /// Adds a pod.
    pub(crate) fn add(&mut self, pod: Arc<Pod>) {
        self.requested.add(&pod.requests);
        self.assumed_requested.add(&pod.assumed_requests);
        self.ports.extend_from_slice(&pod.host_ports);
        self.pods.push(pod);
    }

    /// Removes a pod; none if it was not on the node.
    pub(crate) fn remove(&mut self, uid: &str) -> Option<Arc<Pod>> {
        let position = self.pods.iter().position(|pod| *pod.metadata.uid == *uid)?;
        let pod = self.pods.swap_remove(position);
        self.requested.subtract(&pod.requests);
        self.assumed_requested.subtract(&pod.assumed_requests);
        for port in &pod.host_ports {
            if let Some(position) = self.ports.iter().position(|taken| taken == port) {
                self.ports.swap_remove(position);
            }
        }
        Some(pod)
    }

    /// Replaces a pod with a newer version that has the same requests and ports.
    pub(super) fn swap(&mut self, pod: &Arc<Pod>) {
        if let Some(cached) = self.pods.iter_mut().find(|cached| cached.metadata.uid == pod.metadata.uid) {
            *cached = Arc::clone(pod);
        }
    }

    /// True if one of these host ports is in use.
    pub(crate) fn has_any_in_use(&self, wanted: &[HostPort]) -> bool {
        wanted.iter().any(|port| self.ports.iter().any(|taken| ports_conflict(port, taken)))
    }

    /// True if neither the node nor any pod on it exists.
    pub(super) fn is_empty(&self) -> bool {
        self.node.is_none() && self.pods.is_empty()
    }
}

/// True if two host ports conflict.
pub(crate) fn ports_conflict(one: &HostPort, other: &HostPort) -> bool {
    one.port == other.port
        && one.protocol == other.protocol
        && (one.ip == other.ip || &*one.ip == ANY_ADDRESS || &*other.ip == ANY_ADDRESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(protocol: &str, ip: &str, port: u16) -> HostPort {
        HostPort { protocol: protocol.into(), ip: ip.into(), port }
    }

    #[test]
    fn host_ports_on_the_same_or_on_all_addresses_conflict() {
        let taken = port("TCP", "127.0.0.1", 80);
        for (wanted, expected) in [
            (port("TCP", "127.0.0.1", 80), true),
            (port("TCP", ANY_ADDRESS, 80), true),
            (port("TCP", "127.0.0.2", 80), false),
            (port("UDP", "127.0.0.1", 80), false),
            (port("TCP", "127.0.0.1", 81), false),
        ] {
            assert_eq!(ports_conflict(&wanted, &taken), expected, "{wanted:?}");
            assert_eq!(ports_conflict(&taken, &wanted), expected, "{wanted:?}");
        }
    }

    #[test]
    fn removed_pod_leaves_no_requests_and_ports() {
        let mut info = NodeInfo::new(NodeIndex::new(0));
        let mut pod = Pod { host_ports: Box::new([port("TCP", ANY_ADDRESS, 80)]), ..Pod::default() };
        pod.metadata.uid = "u".into();
        pod.requests.milli_cpu = 5;
        info.add(Arc::new(pod.clone()));
        assert!(info.has_any_in_use(&pod.host_ports) && info.requested.milli_cpu == 5);
        assert!(info.remove("other").is_none());
        assert!(info.remove("u").is_some() && info.is_empty());
        assert!(!info.has_any_in_use(&pod.host_ports) && info.requested.milli_cpu == 0);
    }
}
