//! The scheduler's cache: nodes, the pods on them, and the indexes derived from both, updated with each
//! change.
//!
//! Only the scheduler's own task accesses it, so a scheduling cycle reads it directly: unlike
//! kube-scheduler there is no snapshot to copy first, and a decision costs only as much as the data it
//! looks at.

mod node_info;
mod order;
mod selection_counts;
mod terms;
#[cfg(test)]
mod tests;
mod topology;

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use node_info::ports_conflict;
pub use node_info::{NodeIndex, NodeInfo};
pub(crate) use selection_counts::{Namespaces, PodSelection, SelectionCounts};
pub(crate) use terms::{TermIndex, TermWeights};
pub(crate) use topology::{ColumnId, Topology, ValueId};

use crate::view::{Node, Pod};
use terms::PodLocation;

#[derive(Debug)]
struct CachedPod {
    pod: Arc<Pod>,
    index: NodeIndex,
    /// True if this scheduler placed the pod and the API server has not confirmed it yet.
    assumed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Cache {
    nodes: Vec<NodeInfo>,
    free_slots: Vec<NodeIndex>,
    by_name: HashMap<Box<str>, NodeIndex>,
    /// Order in which nodes are examined; none if it has to be recomputed.
    order: Option<Vec<NodeIndex>>,
    pods: HashMap<Box<str>, CachedPod>,
    topology: Topology,
    selection_counts: SelectionCounts,
    terms: TermIndex,
    /// Nodes that have each image, and its size there.
    images: HashMap<Box<str>, HashMap<NodeIndex, i64>>,
    /// Number of pods that use each PersistentVolumeClaim, by namespace and name.
    claims: HashMap<(Box<str>, Box<str>), usize>,
    /// Number of nodes.
    node_count: usize,
    assumed: usize,
}

/// Relation of a pod from a watch event to the cached one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetPodOutcome {
    /// The pod was not in the cache.
    Added,
    /// The pod was assumed here; the API server now confirms it.
    Confirmed,
    /// The pod was already in the cache.
    Updated,
}

impl Cache {
    /// All nodes, in the order in which they are examined.
    pub(crate) fn order(&mut self) -> &[NodeIndex] {
        self.order.get_or_insert_with(|| order::round_robin(&self.nodes))
    }

    /// The order last computed by [`Self::order`], without recomputing it.
    pub(crate) fn cached_order(&self) -> &[NodeIndex] {
        self.order.as_deref().unwrap_or(&[])
    }

    pub(crate) fn info(&self, index: NodeIndex) -> &NodeInfo {
        &self.nodes[index.slot()]
    }

    /// The entry of a node, if the node exists.
    pub(crate) fn find(&self, name: &str) -> Option<&NodeInfo> {
        let info = self.info(*self.by_name.get(name)?);
        info.node.is_some().then_some(info)
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    pub(crate) fn selection_counts(&self) -> &SelectionCounts {
        &self.selection_counts
    }

    pub(crate) fn terms(&self) -> &TermIndex {
        &self.terms
    }

    /// Nodes that have an image, and its size there.
    pub(crate) fn image(&self, name: &str) -> Option<&HashMap<NodeIndex, i64>> {
        self.images.get(name)
    }

    /// True if a pod that is assigned to a node uses this claim.
    pub(crate) fn is_claim_used(&self, namespace: &str, name: &str) -> bool {
        // Called only for pods with ReadWriteOncePod claims, so the copy does not matter.
        self.claims.contains_key(&(namespace.into(), name.into()))
    }

    /// Indexes a node label if it is not indexed yet.
    pub(crate) fn ensure_column(&mut self, key: &str) -> ColumnId {
        self.topology.ensure(key, &self.nodes)
    }

    /// Counts the pods a selection matches if they are not counted yet.
    pub(crate) fn ensure_counts(&mut self, selection: &PodSelection) {
        self.selection_counts.ensure(selection, &self.nodes);
    }

    /// The cached pod, if it is assigned to a node.
    pub(crate) fn pod(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.pods.get(uid).map(|cached| &cached.pod)
    }

    /// True if the pod was assumed here and the API server has not confirmed it yet.
    pub(crate) fn is_assumed(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|cached| cached.assumed)
    }

    /// The number of nodes, of pods on them, and of those pods the number that are only assumed.
    pub(crate) fn size(&self) -> [usize; 3] {
        [self.node_count, self.pods.len(), self.assumed]
    }

    /// True if there are neither nodes nor pods.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.pods.is_empty()
    }

    /// Adds or updates a node.
    pub(crate) fn set_node(&mut self, node: &Arc<Node>) {
        let index = self.slot_of(&node.metadata.name);
        let old = self.nodes[index.slot()].node.clone();
        if order::zone_changed(old.as_deref(), Some(node)) {
            self.order = None;
        }
        if old.as_ref().is_none_or(|old| old.labels != node.labels) {
            self.relabel(index, Some(node));
        }
        self.set_images(index, old.as_deref(), Some(node));
        self.node_count += usize::from(old.is_none());
        self.nodes[index.slot()].node = Some(Arc::clone(node));
    }

    /// Removes a node. Its pods stay until their own delete events.
    pub(crate) fn remove_node(&mut self, name: &str) {
        let Some(index) = self.by_name.get(name).copied() else { return };
        let old = self.nodes[index.slot()].node.clone();
        self.relabel(index, None);
        self.set_images(index, old.as_deref(), None);
        self.nodes[index.slot()].node = None;
        self.node_count -= usize::from(old.is_some());
        self.order = None;
        self.free_slot(name, index);
    }

    /// Adds or updates an assigned pod as read from the API server.
    pub(crate) fn set_pod(&mut self, pod: &Arc<Pod>) -> SetPodOutcome {
        let Some(known) = self.pods.get_mut(&pod.metadata.uid) else {
            self.insert_pod(Arc::clone(pod), false);
            return SetPodOutcome::Added;
        };
        let was_assumed = std::mem::take(&mut known.assumed);
        self.assumed -= usize::from(was_assumed);
        if has_same_counts(&known.pod, pod) {
            known.pod = Arc::clone(pod);
            let index = known.index;
            self.nodes[index.slot()].swap(pod);
        } else {
            self.remove_cached(&pod.metadata.uid);
            self.insert_pod(Arc::clone(pod), false);
        }
        if was_assumed { SetPodOutcome::Confirmed } else { SetPodOutcome::Updated }
    }

    /// Adds a pod to its chosen node before the API server confirms the binding.
    pub(crate) fn assume(&mut self, pod: Arc<Pod>) {
        self.remove_cached(&pod.metadata.uid);
        self.insert_pod(pod, true);
    }

    /// Removes an assumed pod, unless the API server has confirmed it.
    pub(crate) fn forget(&mut self, uid: &str) -> Option<Arc<Pod>> {
        if self.is_assumed(uid) { self.remove_cached(uid) } else { None }
    }

    pub(crate) fn remove_pod(&mut self, uid: &str) -> Option<Arc<Pod>> {
        self.remove_cached(uid)
    }

    fn insert_pod(&mut self, pod: Arc<Pod>, assumed: bool) {
        let index = self.slot_of(&pod.node_name);
        let location = PodLocation { topology: &mut self.topology, nodes: &self.nodes, index };
        self.terms.add(location, &pod);
        self.selection_counts.add(index, &pod);
        for claim in pod.volumes.iter().filter_map(|volume| volume.claim_name()) {
            *self.claims.entry((pod.namespace().into(), claim.into())).or_default() += 1;
        }
        self.nodes[index.slot()].add(Arc::clone(&pod));
        self.assumed += usize::from(assumed);
        self.pods.insert(pod.metadata.uid.clone(), CachedPod { pod, index, assumed });
    }

    fn remove_cached(&mut self, uid: &str) -> Option<Arc<Pod>> {
        let CachedPod { pod, index, assumed } = self.pods.remove(uid)?;
        self.assumed -= usize::from(assumed);
        self.nodes[index.slot()].remove(uid);
        let location = PodLocation { topology: &mut self.topology, nodes: &self.nodes, index };
        self.terms.remove(location, &pod);
        self.selection_counts.remove(index, &pod);
        for claim in pod.volumes.iter().filter_map(|volume| volume.claim_name()) {
            let key = (pod.namespace().into(), claim.into());
            if let Some(users) = self.claims.get_mut(&key) {
                *users -= 1;
                if *users == 0 {
                    self.claims.remove(&key);
                }
            }
        }
        self.free_slot(&pod.node_name, index);
        Some(pod)
    }

    /// The slot of a node; allocates one if there is none.
    fn slot_of(&mut self, name: &str) -> NodeIndex {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        let index = self.free_slots.pop().unwrap_or_else(|| {
            let index = NodeIndex::new(self.nodes.len());
            self.nodes.push(NodeInfo::new(index));
            index
        });
        self.by_name.insert(name.into(), index);
        index
    }

    /// Frees the slot of a node that neither exists nor has pods.
    fn free_slot(&mut self, name: &str, index: NodeIndex) {
        let info = &mut self.nodes[index.slot()];
        if info.is_empty() {
            *info = NodeInfo::new(index);
            self.by_name.remove(name);
            self.free_slots.push(index);
        }
    }

    /// Replaces the labels of a node. Affinity terms are counted by topology value, so the terms of its
    /// pods are recounted.
    fn relabel(&mut self, index: NodeIndex, node: Option<&Arc<Node>>) {
        let pods = self.nodes[index.slot()].pods.clone();
        for pod in &pods {
            let location = PodLocation { topology: &mut self.topology, nodes: &self.nodes, index };
            self.terms.remove(location, pod);
        }
        // Columns created for terms below read the labels of the node itself.
        self.nodes[index.slot()].node = node.cloned();
        self.topology.set_node(index, node.map(|node| &**node));
        for pod in &pods {
            let location = PodLocation { topology: &mut self.topology, nodes: &self.nodes, index };
            self.terms.add(location, pod);
        }
    }

    fn set_images(&mut self, index: NodeIndex, old: Option<&Node>, new: Option<&Node>) {
        let (old, new) = (old.map_or(&[][..], |old| &old.images), new.map_or(&[][..], |new| &new.images));
        if old == new {
            return;
        }
        for image in old {
            if let Some(nodes) = self.images.get_mut(&image.name) {
                nodes.remove(&index);
                if nodes.is_empty() {
                    self.images.remove(&image.name);
                }
            }
        }
        for image in new {
            self.images.entry(image.name.clone()).or_default().insert(index, image.bytes);
        }
    }
}

/// True if the new version of a pod changes no count, so that replacing the cached object is enough.
fn has_same_counts(old: &Pod, new: &Pod) -> bool {
    old.node_name == new.node_name
        && old.labels == new.labels
        && old.requests == new.requests
        && old.assumed_requests == new.assumed_requests
        && old.is_terminating() == new.is_terminating()
        && old.affinity == new.affinity
        && old.host_ports == new.host_ports
        && old.volumes == new.volumes
}
