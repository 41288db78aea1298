//! View of a DaemonSet.

use coracle_meta::selector::LabelSelector;
use coracle_meta::selector::labels::Selector;
use coracle_runtime::informer::{Metadata, ObjectMetadata, View};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::node_affinity::{self, RequiredNode};
use super::tolerations;
use crate::history::Snapshot;
use crate::view::{IntOrString, ObjectView, Rounding, Toleration};

/// Annotation that counts template changes, from before there were revisions.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Wire")]
pub(super) struct DaemonSet {
    pub(super) metadata: ObjectMetadata,
    /// Selector of its pods.
    pub(super) selector: Selector,
    pub(super) strategy: Strategy,
    pub(super) min_ready_seconds: i32,
    pub(super) revision_history_limit: usize,
    /// The pod template as stored in revisions.
    pub(super) snapshot: Snapshot,
    /// Labels of the template.
    pub(super) template_labels: Value,
    /// Node requirements of the template.
    pub(super) nodes: NodeRequirements,
    pub(super) status: Status,
}

/// Node requirements of a set's pods.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeRequirements {
    /// `spec.nodeName`; empty if not set.
    pub(super) name: Box<str>,
    pub(super) required: RequiredNode,
    /// Including the tolerations added to every daemon pod.
    pub(super) tolerations: Box<[Toleration]>,
}

/// Update strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Pods are replaced after a user deletes them.
    OnDelete,
    /// Pods are replaced step by step.
    RollingUpdate { max_unavailable: IntOrString, max_surge: IntOrString },
}

impl Default for Strategy {
    fn default() -> Self {
        Self::RollingUpdate { max_unavailable: IntOrString::Int(1), max_surge: IntOrString::Int(0) }
    }
}

/// Status of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) observed_generation: i64,
    pub(super) desired_number_scheduled: i32,
    pub(super) current_number_scheduled: i32,
    pub(super) number_misscheduled: i32,
    pub(super) number_ready: i32,
    pub(super) updated_number_scheduled: i32,
    pub(super) number_available: i32,
    pub(super) number_unavailable: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) collision_count: Option<i32>,
}

impl View for DaemonSet {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl ObjectView for DaemonSet {
    fn object_metadata(&self) -> &ObjectMetadata {
        &self.metadata
    }
}

impl DaemonSet {
    /// The template generation annotation.
    pub(super) fn template_generation(&self) -> Option<i64> {
        self.metadata.annotations.get(TEMPLATE_GENERATION)?.parse().ok()
    }

    /// True if a node may have an old and a new pod during an update.
    pub(super) fn allows_surge(&self) -> bool {
        let Strategy::RollingUpdate { max_surge, .. } = &self.strategy else { return false };
        max_surge.scaled(1, Rounding::Up).is_some_and(|surge| surge > 0)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    metadata: ObjectMetadata,
    spec: WireSpec,
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    selector: LabelSelector,
    template: Value,
    update_strategy: WireStrategy,
    min_ready_seconds: i32,
    revision_history_limit: usize,
}

impl Default for WireSpec {
    fn default() -> Self {
        Self {
            selector: LabelSelector::default(),
            template: Value::Null,
            update_strategy: WireStrategy::default(),
            min_ready_seconds: 0,
            // The API server's default.
            revision_history_limit: 10,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireStrategy {
    r#type: Box<str>,
    rolling_update: Option<WireRollingUpdate>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireRollingUpdate {
    max_unavailable: Option<IntOrString>,
    max_surge: Option<IntOrString>,
}

impl From<WireStrategy> for Strategy {
    fn from(wire: WireStrategy) -> Self {
        if &*wire.r#type == "OnDelete" {
            return Self::OnDelete;
        }
        let WireRollingUpdate { max_unavailable, max_surge } = wire.rolling_update.unwrap_or_default();
        let or_none = |amount: Option<IntOrString>| amount.unwrap_or(IntOrString::Int(0));
        Self::RollingUpdate { max_unavailable: or_none(max_unavailable), max_surge: or_none(max_surge) }
    }
}

impl From<Wire> for DaemonSet {
    fn from(wire: Wire) -> Self {
        let spec = wire.spec;
        Self {
            metadata: wire.metadata,
            // Validation rejects invalid selectors.
            selector: spec.selector.to_selector().unwrap_or_else(|_| Selector::nothing()),
            strategy: spec.update_strategy.into(),
            min_ready_seconds: spec.min_ready_seconds,
            revision_history_limit: spec.revision_history_limit,
            template_labels: spec.template.pointer("/metadata/labels").cloned().unwrap_or_default(),
            nodes: node_requirements(&spec.template["spec"]),
            snapshot: Snapshot::of_template(spec.template),
            status: wire.status,
        }
    }
}

fn node_requirements(spec: &Value) -> NodeRequirements {
    let mut own = spec.clone();
    tolerations::add(&mut own);
    // Validation rejects invalid tolerations.
    let tolerations = Vec::<Toleration>::deserialize(&own["tolerations"]).unwrap_or_default();
    let required = node_affinity::Wire::deserialize(spec).unwrap_or_default();
    NodeRequirements {
        name: spec["nodeName"].as_str().unwrap_or_default().into(),
        required: required.into(),
        tolerations: tolerations.into(),
    }
}
