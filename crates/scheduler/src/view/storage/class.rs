//! Cached representation of a StorageClass.

use coracle_runtime::informer::{Metadata, View};
use serde::Deserialize;

use crate::view::metadata::RawMetadata;
use coracle_runtime::informer::Labels;

/// The provisioner of classes without dynamic provisioning.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum BindingMode {
    Immediate,
    WaitForFirstConsumer,
}

/// A StorageClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawClass")]
pub struct StorageClass {
    pub(crate) metadata: Metadata,
    pub(crate) provisioner: Box<str>,
    pub(crate) binding_mode: Option<BindingMode>,
    pub(crate) allowed_topologies: Box<[Topology]>,
}

/// Node labels for which volumes can be provisioned, each with its allowed values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Topology {
    match_label_expressions: Box<[Allowed]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Allowed {
    key: Box<str>,
    values: Box<[Box<str>]>,
}

impl StorageClass {
    /// True if claims wait for their first consumer.
    pub(crate) fn waits(&self) -> bool {
        self.binding_mode == Some(BindingMode::WaitForFirstConsumer)
    }

    /// True if volumes are provisioned dynamically.
    pub(crate) fn is_provisioned(&self) -> bool {
        !self.provisioner.is_empty() && &*self.provisioner != NO_PROVISIONER
    }

    /// True if volumes can be provisioned for a node with these labels.
    pub(crate) fn allows(&self, node: &Labels) -> bool {
        let fits = |allowed: &Allowed| {
            node.get(&allowed.key).is_some_and(|found| allowed.values.iter().any(|value| **value == *found))
        };
        self.allowed_topologies.is_empty()
            || (self.allowed_topologies.iter())
                .any(|topology| topology.match_label_expressions.iter().all(fits))
    }
}

impl View for StorageClass {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawClass {
    metadata: RawMetadata,
    provisioner: Box<str>,
    volume_binding_mode: Option<BindingMode>,
    allowed_topologies: Box<[Topology]>,
}

impl From<RawClass> for StorageClass {
    fn from(mut raw: RawClass) -> Self {
        Self {
            metadata: raw.metadata.take(),
            provisioner: raw.provisioner,
            binding_mode: raw.volume_binding_mode,
            allowed_topologies: raw.allowed_topologies,
        }
    }
}
