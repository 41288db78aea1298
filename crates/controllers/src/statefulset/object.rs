//! View of a StatefulSet.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use coracle_meta::selector::LabelSelector;
use coracle_meta::selector::labels::Selector;
use coracle_runtime::informer::{Metadata, ObjectMetadata, View};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::history::Snapshot;
use crate::view::{ONE_REPLICA, ObjectView};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Wire")]
pub(super) struct StatefulSet {
    pub(super) metadata: ObjectMetadata,
    pub(super) replicas: i32,
    /// Selector of its pods.
    pub(super) selector: Selector,
    /// Labels for its claims: the `matchLabels` of the selector.
    pub(super) match_labels: BTreeMap<String, String>,
    /// The pod template as stored in revisions.
    pub(super) snapshot: Snapshot,
    /// Labels of the template.
    pub(super) template_labels: Value,
    pub(super) service_name: Box<str>,
    /// True if pods are created and deleted at once, rather than one after the other.
    pub(super) is_parallel: bool,
    pub(super) strategy: Strategy,
    pub(super) min_ready_seconds: i32,
    /// `None` for no limit.
    pub(super) revision_history_limit: Option<usize>,
    pub(super) first_ordinal: i32,
    pub(super) claim_templates: Vec<ClaimTemplate>,
    pub(super) retention: Retention,
    pub(super) status: Status,
}

/// Template of a claim for each pod.
#[derive(Clone, Debug)]
pub(super) struct ClaimTemplate {
    pub(super) name: Box<str>,
    /// The whole template as JSON.
    text: Box<str>,
}

impl ClaimTemplate {
    pub(super) fn to_value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

/// Update strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Pods are replaced after a user deletes them.
    OnDelete,
    /// Pods are replaced one after the other, from the last one down to the partition. The API server always sets the
    /// partition; without it, deleted pods are created from their old revision.
    RollingUpdate { partition: Option<i32> },
}

impl Default for Strategy {
    fn default() -> Self {
        Self::RollingUpdate { partition: Some(0) }
    }
}

/// Retention policy: claims may be deleted with their set, or when it is scaled down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Retention {
    pub(super) delete_when_deleted: bool,
    pub(super) delete_when_scaled: bool,
}

/// Status of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) observed_generation: i64,
    pub(super) replicas: i32,
    pub(super) ready_replicas: i32,
    pub(super) current_replicas: i32,
    pub(super) updated_replicas: i32,
    pub(super) available_replicas: i32,
    pub(super) current_revision: Box<str>,
    pub(super) update_revision: Box<str>,
    pub(super) collision_count: Option<i32>,
}

impl View for StatefulSet {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl ObjectView for StatefulSet {
    fn object_metadata(&self) -> &ObjectMetadata {
        &self.metadata
    }
}

impl StatefulSet {
    /// Ordinals of its pods; empty without replicas.
    pub(super) fn ordinals(&self) -> RangeInclusive<i64> {
        let first = i64::from(self.first_ordinal);
        first..=first + i64::from(self.replicas) - 1
    }

    pub(super) fn is_rolling(&self) -> bool {
        matches!(self.strategy, Strategy::RollingUpdate { .. })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    metadata: ObjectMetadata,
    spec: WireSpec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    replicas: Option<i32>,
    selector: LabelSelector,
    template: Value,
    service_name: Box<str>,
    pod_management_policy: Box<str>,
    update_strategy: WireStrategy,
    min_ready_seconds: i32,
    revision_history_limit: Option<i32>,
    ordinals: WireOrdinals,
    volume_claim_templates: Vec<Value>,
    persistent_volume_claim_retention_policy: WireRetention,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireStrategy {
    r#type: Box<str>,
    rolling_update: Option<WireRollingUpdate>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireRollingUpdate {
    partition: i32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireOrdinals {
    start: i32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireRetention {
    when_deleted: Box<str>,
    when_scaled: Box<str>,
}

/// The API server's default.
const HISTORY_LIMIT: i32 = 10;

impl From<Wire> for StatefulSet {
    fn from(wire: Wire) -> Self {
        let spec = wire.spec;
        let retention = spec.persistent_volume_claim_retention_policy;
        let partition = spec.update_strategy.rolling_update.map(|rolling| rolling.partition.max(0));
        let strategy = match &*spec.update_strategy.r#type {
            "OnDelete" => Strategy::OnDelete,
            _ => Strategy::RollingUpdate { partition },
        };
        let limit = spec.revision_history_limit.unwrap_or(HISTORY_LIMIT);
        Self {
            metadata: wire.metadata,
            replicas: spec.replicas.unwrap_or(ONE_REPLICA).max(0),
            // Validation rejects invalid selectors.
            selector: spec.selector.to_selector().unwrap_or_else(|_| Selector::nothing()),
            match_labels: spec.selector.match_labels,
            template_labels: spec.template.pointer("/metadata/labels").cloned().unwrap_or_default(),
            snapshot: Snapshot::of_template(spec.template),
            service_name: spec.service_name,
            is_parallel: &*spec.pod_management_policy == "Parallel",
            strategy,
            min_ready_seconds: spec.min_ready_seconds,
            revision_history_limit: usize::try_from(limit).ok(),
            first_ordinal: spec.ordinals.start.max(0),
            claim_templates: spec.volume_claim_templates.iter().map(claim_template).collect(),
            retention: Retention {
                delete_when_deleted: &*retention.when_deleted == "Delete",
                delete_when_scaled: &*retention.when_scaled == "Delete",
            },
            status: wire.status,
        }
    }
}

fn claim_template(template: &Value) -> ClaimTemplate {
    let name = template["metadata"]["name"].as_str().unwrap_or_default().into();
    ClaimTemplate { name, text: template.to_string().into() }
}
