//! View of nodes.

use coracle_base::Timestamp;
use coracle_runtime::informer::{Labels, Metadata, ObjectMetadata, View};
use coracle_runtime::{Informer, Manager, Selection};
use serde::{Deserialize, Serialize};

use super::condition::{Condition, condition};
use super::optional_time;

/// Informer of all nodes.
pub(crate) fn nodes(manager: &mut Manager) -> Informer<Node> {
    manager.informer(Selection::of::<k8s_openapi::api::core::v1::Node>())
}

/// View of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub(crate) metadata: ObjectMetadata,
    pub(crate) spec: NodeSpec,
    pub(crate) status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeSpec {
    pub(crate) unschedulable: bool,
    pub(crate) taints: Box<[Taint]>,
    #[serde(rename = "podCIDRs")]
    pub(crate) pod_cidrs: Box<[Box<str>]>,
}

/// A taint, which repels pods that do not tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Taint {
    pub(crate) key: Box<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) value: Box<str>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub(crate) effect: Box<str>,
    #[serde(with = "optional_time", skip_serializing_if = "Option::is_none")]
    pub(crate) time_added: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeStatus {
    pub(crate) conditions: Box<[Condition]>,
    pub(crate) addresses: Box<[NodeAddress]>,
    /// Amounts by resource.
    pub(crate) allocatable: Labels,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeAddress {
    pub(crate) r#type: Box<str>,
    pub(crate) address: Box<str>,
}

impl View for Node {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl Node {
    /// True if its Ready condition is true.
    pub(crate) fn is_ready(&self) -> bool {
        condition(&self.status.conditions, "Ready").is_some_and(Condition::is_true)
    }
}
