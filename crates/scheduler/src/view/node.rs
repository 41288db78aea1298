//! Cached representation of a Node.

use coracle_runtime::informer::{Metadata, View};
use serde::Deserialize;

use super::metadata::RawMetadata;
use super::resources::{ResourceList, Resources};
use super::taint::Taint;
use coracle_runtime::informer::Labels;

/// A node, reduced to the fields the scheduler reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawNode")]
pub struct Node {
    pub(crate) metadata: Metadata,
    pub(crate) labels: Labels,
    /// The node is cordoned.
    pub(crate) unschedulable: bool,
    pub(crate) taints: Box<[Taint]>,
    pub(crate) allocatable: Resources,
    /// Images on the node, one entry per name.
    pub(crate) images: Box<[Image]>,
    pub(crate) declared_features: Box<[Box<str>]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) name: Box<str>,
    pub(crate) bytes: i64,
}

/// Label of the failure zone of a node.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// Label of the region of a node.
pub(crate) const REGION: &str = "topology.kubernetes.io/region";
/// Label of the host name, which is unique per node.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

impl Node {
    /// The name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// True if the node is cordoned.
    pub fn is_unschedulable(&self) -> bool {
        self.unschedulable
    }

    /// The allocatable resources.
    pub fn allocatable(&self) -> &Resources {
        &self.allocatable
    }

    /// Changes that may make pods schedulable.
    pub(crate) fn changes_since(&self, old: &Self) -> NodeChanges {
        NodeChanges {
            allocatable: self.allocatable != old.allocatable,
            labels: self.labels != old.labels,
            taints: self.taints != old.taints || (old.unschedulable && !self.unschedulable),
            features: self.declared_features != old.declared_features,
        }
    }
}

/// Parts of a node that changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeChanges {
    /// The allocatable resources.
    pub allocatable: bool,
    /// The labels.
    pub labels: bool,
    /// The taints, or the node was uncordoned.
    pub taints: bool,
    /// The declared features.
    pub features: bool,
}

impl NodeChanges {
    /// Its label in kube-scheduler's metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self { allocatable: true, .. } => "NodeUpdateNodeAllocatable",
            Self { labels: true, .. } => "NodeUpdateNodeLabel",
            Self { taints: true, .. } => "NodeUpdateNodeTaint",
            Self { features: true, .. } => "NodeUpdateNodeDeclaredFeature",
            _ => "NodeUpdate",
        }
    }

    pub(crate) fn any(self) -> bool {
        self != Self::default()
    }
}

impl View for Node {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNode {
    metadata: RawMetadata,
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    unschedulable: bool,
    taints: Box<[Taint]>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    allocatable: ResourceList,
    images: Vec<RawImage>,
    declared_features: Box<[Box<str>]>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawImage {
    names: Vec<Box<str>>,
    size_bytes: i64,
}

impl From<RawNode> for Node {
    fn from(mut raw: RawNode) -> Self {
        let images = raw.status.images.into_iter();
        let named = images.flat_map(|RawImage { names, size_bytes: bytes }| {
            names.into_iter().map(move |name| Image { name, bytes })
        });
        Self {
            metadata: raw.metadata.take(),
            labels: raw.metadata.labels,
            unschedulable: raw.spec.unschedulable,
            taints: raw.spec.taints,
            allocatable: Resources::of(&raw.status.allocatable),
            images: named.collect(),
            declared_features: raw.status.declared_features,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(value: serde_json::Value) -> Node {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn node_is_parsed() {
        let node = node(json!({
            "metadata": {"name": "n", "resourceVersion": "3", "labels": {ZONE: "a"}},
            "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "x"}]},
            "status": {"allocatable": {"cpu": "4", "memory": "1Gi", "pods": "110"},
                "images": [{"names": ["a@sha256:1", "a:1"], "sizeBytes": 5}, {"sizeBytes": 1}]},
        }));
        assert_eq!((&*node.metadata.name, node.labels.get(ZONE)), ("n", Some("a")));
        assert!(node.unschedulable && node.taints[0].blocks_scheduling());
        assert_eq!((node.allocatable.milli_cpu, node.allocatable.pods), (4000, 110));
        assert_eq!(node.images.len(), 2);
    }

    #[test]
    fn heartbeat_is_no_relevant_change() {
        let old = node(json!({"metadata": {"name": "n", "resourceVersion": "1"}}));
        let mut new = node(json!({"metadata": {"name": "n", "resourceVersion": "2"}}));
        assert!(!new.changes_since(&old).any());
        new.unschedulable = true;
        assert!(!new.changes_since(&old).any(), "the node was cordoned");
        assert!(old.changes_since(&new).taints, "the node was uncordoned");
    }
}
