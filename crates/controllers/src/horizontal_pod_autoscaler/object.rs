//! Views of autoscalers and of their targets.

use coracle_base::Timestamp;
use coracle_meta::quantity::Quantity;
use coracle_meta::selector::LabelSelector;
use coracle_runtime::informer::{Metadata, ObjectMetadata, View};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::view::{Condition, optional_time};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Autoscaler {
    pub(super) metadata: ObjectMetadata,
    pub(super) spec: Spec,
    pub(super) status: Status,
}

impl View for Autoscaler {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub(super) scale_target_ref: ObjectReference,
    pub(super) min_replicas: Option<i32>,
    pub(super) max_replicas: i32,
    pub(super) metrics: Box<[MetricSpec]>,
    pub(super) behavior: Option<Box<Behavior>>,
}

impl Spec {
    /// Lower limit of replicas; one by default.
    pub(super) fn min_replicas(&self) -> i32 {
        self.min_replicas.unwrap_or(1)
    }
}

/// Reference to an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ObjectReference {
    pub(super) kind: Box<str>,
    pub(super) name: Box<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) api_version: Box<str>,
}

impl ObjectReference {
    /// Group of the referenced kind; `None` if the API version is malformed.
    pub(super) fn group(&self) -> Option<&str> {
        match &*self.api_version {
            version if !version.contains('/') => Some(""),
            version => {
                version.split_once('/').filter(|(_, rest)| !rest.contains('/')).map(|(group, _)| group)
            }
        }
    }
}

/// A metric and its target value.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MetricSpec {
    pub(super) r#type: Box<str>,
    pub(super) resource: Option<ResourceMetric>,
    pub(super) container_resource: Option<ResourceMetric>,
    pub(super) pods: Option<NamedMetric>,
    pub(super) object: Option<NamedMetric>,
    pub(super) external: Option<NamedMetric>,
}

/// Resource usage of pods, or of one container of each.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ResourceMetric {
    pub(super) name: Box<str>,
    /// Empty for all containers.
    pub(super) container: Box<str>,
    pub(super) target: Target,
}

/// A custom or external metric.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NamedMetric {
    pub(super) metric: MetricIdentifier,
    pub(super) target: Target,
    /// The object described by the metric; unused for metrics of pods.
    pub(super) described_object: ObjectReference,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct MetricIdentifier {
    pub(super) name: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) selector: Option<LabelSelector>,
}

/// Target value of a metric.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Target {
    pub(super) r#type: Box<str>,
    pub(super) value: Option<Quantity>,
    pub(super) average_value: Option<Quantity>,
    /// Percentage of the resource request.
    pub(super) average_utilization: Option<i32>,
}

/// Rules for scaling in each direction.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Behavior {
    pub(super) scale_up: Option<ScalingRules>,
    pub(super) scale_down: Option<ScalingRules>,
}

/// Rules for scaling in one direction.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ScalingRules {
    pub(super) stabilization_window_seconds: Option<u32>,
    pub(super) select_policy: SelectPolicy,
    pub(super) policies: Box<[ScalingPolicy]>,
    pub(super) tolerance: Option<Quantity>,
}

/// Selects among several policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum SelectPolicy {
    /// The policy that allows the largest change.
    #[default]
    Max,
    /// The policy that allows the smallest change.
    Min,
    /// Scaling in this direction is disabled.
    Disabled,
}

/// Maximum change within a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ScalingPolicy {
    pub(super) r#type: PolicyType,
    pub(super) value: i32,
    pub(super) period_seconds: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum PolicyType {
    #[default]
    Pods,
    Percent,
}

/// Status of an autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) current_replicas: i32,
    pub(super) desired_replicas: i32,
    #[serde(with = "optional_time", skip_serializing_if = "Option::is_none")]
    pub(super) last_scale_time: Option<Timestamp>,
    /// As in the API; null if no metric was read.
    pub(super) current_metrics: Value,
    pub(super) conditions: Vec<Condition>,
}

impl Status {
    /// Sets a condition; its transition time changes only with its status.
    pub(super) fn set(&mut self, new_condition: NewCondition, now: Timestamp) {
        let known = self.conditions.iter_mut().find(|known| &*known.r#type == new_condition.r#type);
        let Some(known) = known else {
            let mut condition = Condition { r#type: new_condition.r#type.into(), ..Condition::default() };
            new_condition.write(&mut condition, now);
            return self.conditions.push(condition);
        };
        new_condition.write(known, now);
    }
}

/// A condition to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewCondition {
    r#type: &'static str,
    is_true: bool,
    reason: &'static str,
    message: String,
}

impl NewCondition {
    pub(super) fn able_to_scale(is_true: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self { r#type: "AbleToScale", is_true, reason, message: message.into() }
    }

    pub(super) fn scaling_active(is_true: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self { r#type: "ScalingActive", is_true, reason, message: message.into() }
    }

    pub(super) fn scaling_limited(is_true: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self { r#type: "ScalingLimited", is_true, reason, message: message.into() }
    }

    fn write(self, condition: &mut Condition, now: Timestamp) {
        let status = if self.is_true { "True" } else { "False" };
        if &*condition.status != status {
            condition.last_transition_time = Some(now);
        }
        condition.status = status.into();
        condition.reason = self.reason.into();
        condition.message = self.message.into();
    }
}

/// The scale subresource.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Scale {
    pub(super) metadata: Metadata,
    pub(super) spec: ScaleSpec,
    pub(super) status: ScaleStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScaleSpec {
    pub(super) replicas: i32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScaleStatus {
    pub(super) replicas: i32,
    /// Label selector of the pods.
    pub(super) selector: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_is_parsed_from_api_version() {
        let group = |version: &str| {
            let reference = ObjectReference { api_version: version.into(), ..ObjectReference::default() };
            reference.group().map(str::to_owned)
        };
        assert_eq!(group("apps/v1").as_deref(), Some("apps"));
        assert_eq!(group("v1").as_deref(), Some(""));
        assert_eq!(group("a/b/c"), None);
    }

    #[test]
    fn condition_time_changes_with_its_status() {
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1000);
        let mut status = Status::default();
        status.set(NewCondition::able_to_scale(true, "A", "a"), at(1));
        status.set(NewCondition::able_to_scale(true, "B", "b"), at(2));
        assert_eq!(status.conditions[0].last_transition_time, Some(at(1)));
        assert_eq!((&*status.conditions[0].reason, &*status.conditions[0].message), ("B", "b"));
        status.set(NewCondition::able_to_scale(false, "C", "c"), at(3));
        assert_eq!(status.conditions[0].last_transition_time, Some(at(3)));
        assert_eq!(status.conditions.len(), 1);
    }
}
