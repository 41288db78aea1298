//! Cached representations of namespaces, services, workload controllers and PodDisruptionBudgets.

use std::collections::BTreeMap;

use coracle_meta::selector::LabelSelector;
use coracle_meta::selector::labels::Selector;
use coracle_runtime::informer::{Metadata, View};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::metadata::RawMetadata;
use super::selector::{parsed, parsed_or_nothing};
use coracle_runtime::informer::Labels;

/// A Namespace with its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawNamespace")]
pub(crate) struct Namespace {
    pub(crate) metadata: Metadata,
    pub(crate) labels: Labels,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNamespace {
    metadata: RawMetadata,
}

impl From<RawNamespace> for Namespace {
    fn from(mut raw: RawNamespace) -> Self {
        Self { metadata: raw.metadata.take(), labels: raw.metadata.labels }
    }
}

/// An object whose selector is a set of labels: a Service or a ReplicationController.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct BySet {
    pub(crate) metadata: Metadata,
    pub(crate) spec: BySetSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct BySetSpec {
    /// None selects nothing.
    pub(crate) selector: Option<BTreeMap<Box<str>, Box<str>>>,
}

impl BySet {
    /// True if it selects a pod with these labels.
    pub(crate) fn selects(&self, labels: &Labels) -> bool {
        self.spec.selector.is_some() && self.labels().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// The labels it requires.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.spec.selector.iter().flatten().map(|(key, value)| (&**key, &**value))
    }
}

/// An object with a label selector: a ReplicaSet or a StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "RawBySelector")]
pub(crate) struct BySelector {
    pub(crate) metadata: Metadata,
    pub(crate) selector: Selector,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawBySelector {
    metadata: Metadata,
    spec: RawBySelectorSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawBySelectorSpec {
    selector: LabelSelector,
}

impl From<RawBySelector> for BySelector {
    fn from(raw: RawBySelector) -> Self {
        Self { metadata: raw.metadata, selector: parsed(&raw.spec.selector) }
    }
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "RawBudget")]
pub(crate) struct DisruptionBudget {
    pub(crate) metadata: Metadata,
    pub(crate) selector: Selector,
    /// `status.disruptionsAllowed`.
    pub(crate) allowed: i64,
    /// Pods whose disruption has been counted already.
    pub(crate) disrupted: Box<[Box<str>]>,
}

impl DisruptionBudget {
    /// True if it protects a pod. An empty selector protects none here.
    pub(crate) fn protects(&self, namespace: &str, labels: &Labels) -> bool {
        *self.metadata.namespace == *namespace
            && !self.selector.is_everything()
            && self.selector.matches(labels)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawBudget {
    metadata: Metadata,
    spec: RawBudgetSpec,
    status: RawBudgetStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawBudgetSpec {
    selector: Option<LabelSelector>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawBudgetStatus {
    disruptions_allowed: i64,
    disrupted_pods: BTreeMap<Box<str>, IgnoredAny>,
}

impl From<RawBudget> for DisruptionBudget {
    fn from(raw: RawBudget) -> Self {
        Self {
            metadata: raw.metadata,
            selector: parsed_or_nothing(raw.spec.selector.as_ref()),
            allowed: raw.status.disruptions_allowed,
            disrupted: raw.status.disrupted_pods.into_keys().collect(),
        }
    }
}

impl View for Namespace {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl View for BySet {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl View for BySelector {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl View for DisruptionBudget {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
