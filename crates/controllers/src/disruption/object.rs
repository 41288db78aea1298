//! View of a PodDisruptionBudget.

use std::collections::BTreeMap;

use coracle_base::Timestamp;
use coracle_meta::selector::LabelSelector;
use coracle_meta::selector::labels::Selector;
use coracle_runtime::informer::{Labels, Metadata, ObjectMetadata, View, timestamp};
use serde::Deserialize;

use crate::view::{Condition, IntOrString};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Budget {
    pub(super) metadata: ObjectMetadata,
    pub(super) spec: BudgetSpec,
    pub(super) status: BudgetStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BudgetSpec {
    pub(super) min_available: Option<IntOrString>,
    pub(super) max_unavailable: Option<IntOrString>,
    pub(super) selector: PodSelector,
}

/// Selector of a budget: no selector matches no pods, an empty one all.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Option<LabelSelector>")]
pub(super) struct PodSelector {
    pub(super) written: Option<LabelSelector>,
    pub(super) meant: Selector,
}

impl From<Option<LabelSelector>> for PodSelector {
    fn from(written: Option<LabelSelector>) -> Self {
        let meant = written.as_ref().and_then(|selector| selector.to_selector().ok());
        Self { written, meant: meant.unwrap_or_else(Selector::nothing) }
    }
}

impl Default for PodSelector {
    fn default() -> Self {
        Self::from(None)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BudgetStatus {
    pub(super) observed_generation: i64,
    /// Pods that were evicted but are not terminating yet, and when they were evicted.
    pub(super) disrupted_pods: BTreeMap<Box<str>, Since>,
    pub(super) disruptions_allowed: i32,
    pub(super) current_healthy: i32,
    pub(super) desired_healthy: i32,
    pub(super) expected_pods: i32,
    pub(super) conditions: Vec<Condition>,
}

/// A timestamp of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "Box<str>")]
pub(super) struct Since(pub(super) Timestamp);

impl From<Box<str>> for Since {
    fn from(text: Box<str>) -> Self {
        Self(timestamp(&text))
    }
}

impl View for Budget {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl Budget {
    /// True if it selects an object with these labels.
    pub(super) fn selects(&self, labels: &Labels) -> bool {
        self.spec.selector.meant.matches(labels)
    }
}
