//! Views of replica sets and replication controllers, which differ in the form of their selectors.

use coracle_meta::selector::LabelSelector;
use coracle_meta::selector::labels::Selector;
use coracle_runtime::informer::{Labels, Metadata, ObjectMetadata, View};
use coracle_runtime::{Informer, Manager, Selection};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::pod_template::PodTemplate;
use super::{ONE_REPLICA, ObjectView};

/// Informer of all replica sets.
pub(crate) fn replica_sets(manager: &mut Manager) -> Informer<ReplicaSet> {
    manager.informer(Selection::of::<k8s_openapi::api::apps::v1::ReplicaSet>())
}

/// Informer of all replication controllers.
pub(crate) fn replication_controllers(manager: &mut Manager) -> Informer<ReplicationController> {
    manager.informer(Selection::of::<k8s_openapi::api::core::v1::ReplicationController>())
}

/// View of a replica set.
pub(crate) type ReplicaSet = Replicated<ByExpressions>;

/// View of a replication controller.
pub(crate) type ReplicationController = Replicated<ByLabels>;

/// View of an object that keeps a number of equal pods.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound = "S: Default + DeserializeOwned")]
pub(crate) struct Replicated<S> {
    pub(crate) metadata: ObjectMetadata,
    pub(crate) spec: ReplicatedSpec<S>,
    pub(crate) status: ReplicatedStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound = "S: Default + DeserializeOwned")]
pub(crate) struct ReplicatedSpec<S> {
    pub(crate) replicas: Option<i32>,
    pub(crate) min_ready_seconds: i32,
    selector: S,
    pub(crate) template: PodTemplate,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplicatedStatus {
    pub(crate) replicas: i32,
    pub(crate) fully_labeled_replicas: i32,
    pub(crate) ready_replicas: i32,
    pub(crate) available_replicas: i32,
    /// For replica sets only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) terminating_replicas: Option<i32>,
    pub(crate) observed_generation: i64,
    pub(crate) conditions: Box<[Condition]>,
}

/// Form of a selector.
pub(crate) trait PodSelector: Clone + Default + DeserializeOwned + Send + Sync + 'static {
    fn selector(&self) -> &Selector;
}

/// A selector with labels and expressions.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Option<LabelSelector>")]
pub(crate) struct ByExpressions(Selector);

/// A selector with labels only.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Labels")]
pub(crate) struct ByLabels(Selector);

impl Default for ByExpressions {
    fn default() -> Self {
        Self(Selector::nothing())
    }
}

impl Default for ByLabels {
    fn default() -> Self {
        Self(Selector::nothing())
    }
}

impl From<Option<LabelSelector>> for ByExpressions {
    fn from(selector: Option<LabelSelector>) -> Self {
        // An invalid selector selects nothing; validation rejects those.
        let selector = selector.and_then(|selector| selector.to_selector().ok());
        Self(selector.unwrap_or_else(Selector::nothing))
    }
}

impl From<Labels> for ByLabels {
    fn from(labels: Labels) -> Self {
        // As in Kubernetes, an empty selector selects nothing.
        Self(if labels.is_empty() { Selector::nothing() } else { Selector::from_set(labels.iter()) })
    }
}

impl PodSelector for ByExpressions {
    fn selector(&self) -> &Selector {
        &self.0
    }
}

impl PodSelector for ByLabels {
    fn selector(&self) -> &Selector {
        &self.0
    }
}

impl<S: PodSelector> Replicated<S> {
    /// Number of desired pods.
    pub(crate) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(ONE_REPLICA)
    }

    /// Selector of its pods.
    pub(crate) fn selector(&self) -> &Selector {
        self.spec.selector.selector()
    }
}

impl<S: PodSelector> View for Replicated<S> {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl<S: PodSelector> ObjectView for Replicated<S> {
    fn object_metadata(&self) -> &ObjectMetadata {
        &self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_kinds_parse_their_selectors() {
        let (labels, others) = (Labels::from_iter([("app", "x")]), Labels::from_iter([("app", "y")]));
        let set: ReplicaSet = serde_json::from_value(json!({
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}}},
            "status": {"replicas": 2, "terminatingReplicas": 0},
        }))
        .unwrap();
        assert!(set.selector().matches(&labels) && !set.selector().matches(&others));
        assert_eq!((set.replicas(), set.status.terminating_replicas), (3, Some(0)));
        assert_eq!(set.spec.template.labels, labels);
        let controller: ReplicationController =
            serde_json::from_value(json!({"spec": {"selector": {"app": "x"}}})).unwrap();
        assert!(controller.selector().matches(&labels) && !controller.selector().matches(&others));
        assert_eq!(controller.replicas(), 1);
        for nothing in [json!({}), json!({"spec": {"selector": null}})] {
            let set: ReplicaSet = serde_json::from_value(nothing.clone()).unwrap();
            assert!(!set.selector().matches(&labels));
            let controller: ReplicationController = serde_json::from_value(nothing).unwrap();
            assert!(!controller.selector().matches(&labels));
        }
    }
}
