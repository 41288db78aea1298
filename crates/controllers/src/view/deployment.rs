//! View of deployments.

use coracle_meta::selector::LabelSelector;
use coracle_meta::selector::labels::Selector;
use coracle_runtime::informer::{Metadata, ObjectMetadata, View};
use coracle_runtime::{Informer, Manager, Selection};
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::int_or_string::IntOrString;
use super::pod_template::PodTemplate;
use super::{ONE_REPLICA, ObjectView};

/// Informer of all deployments.
pub(crate) fn deployments(manager: &mut Manager) -> Informer<Deployment> {
    manager.informer(Selection::of::<k8s_openapi::api::apps::v1::Deployment>())
}

/// View of a deployment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Deployment {
    pub(crate) metadata: ObjectMetadata,
    pub(crate) spec: DeploymentSpec,
    pub(crate) status: DeploymentStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeploymentSpec {
    pub(crate) replicas: Option<i32>,
    pub(crate) selector: DeploymentSelector,
    pub(crate) template: PodTemplate,
    pub(crate) strategy: Strategy,
    pub(crate) min_ready_seconds: i32,
    pub(crate) revision_history_limit: Option<i32>,
    pub(crate) paused: bool,
    pub(crate) progress_deadline_seconds: Option<i32>,
}

/// Selector of replica sets, as written and parsed.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "LabelSelector")]
pub(crate) struct DeploymentSelector {
    pub(crate) written: LabelSelector,
    pub(crate) ready: Selector,
}

impl From<LabelSelector> for DeploymentSelector {
    fn from(written: LabelSelector) -> Self {
        // Validation rejects invalid selectors, and one that selects everything would take other controllers' sets.
        let ready = written.to_selector().ok().filter(|selector| !selector.is_everything());
        Self { written, ready: ready.unwrap_or_else(Selector::nothing) }
    }
}

impl Default for DeploymentSelector {
    fn default() -> Self {
        LabelSelector::default().into()
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Strategy {
    pub(crate) r#type: StrategyType,
    pub(crate) rolling_update: RollingUpdate,
}

/// Update strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum StrategyType {
    /// Pods are replaced a few at a time.
    #[default]
    RollingUpdate,
    /// All pods are deleted before new ones are created.
    Recreate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RollingUpdate {
    pub(crate) max_surge: Option<IntOrString>,
    pub(crate) max_unavailable: Option<IntOrString>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeploymentStatus {
    pub(crate) observed_generation: i64,
    pub(crate) replicas: i32,
    pub(crate) updated_replicas: i32,
    pub(crate) ready_replicas: i32,
    pub(crate) available_replicas: i32,
    pub(crate) unavailable_replicas: i32,
    pub(crate) terminating_replicas: Option<i32>,
    pub(crate) collision_count: Option<i32>,
    pub(crate) conditions: Vec<Condition>,
}

impl Deployment {
    /// Number of desired pods.
    pub(crate) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(ONE_REPLICA)
    }

    /// Selector of its replica sets.
    pub(crate) fn selector(&self) -> &Selector {
        &self.spec.selector.ready
    }
}

impl View for Deployment {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl ObjectView for Deployment {
    fn object_metadata(&self) -> &ObjectMetadata {
        &self.metadata
    }
}
