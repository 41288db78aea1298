//! Cached representations of CSI objects.

use coracle_meta::quantity::Quantity;
use coracle_meta::selector::LabelSelector;
use coracle_meta::selector::labels::Selector;
use coracle_runtime::informer::{Metadata, View};
use serde::Deserialize;

use crate::view::selector::parsed;

/// The CSI drivers of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CsiNode {
    pub(crate) metadata: Metadata,
    pub(crate) spec: CsiNodeSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct CsiNodeSpec {
    pub(crate) drivers: Box<[Driver]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Driver {
    pub(crate) name: Box<str>,
    allocatable: Option<Allocatable>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Allocatable {
    count: Option<usize>,
}

impl CsiNode {
    /// The maximum number of volumes of a driver; none if there is no limit.
    pub(crate) fn limit(&self, driver: &str) -> Option<usize> {
        let driver = self.spec.drivers.iter().find(|found| *found.name == *driver)?;
        driver.allocatable.as_ref()?.count
    }

    /// True if the limit of any driver increased.
    pub(crate) fn allows_more_than(&self, old: &Self) -> bool {
        let limit_of = |driver: &Driver| driver.allocatable.as_ref().and_then(|most| most.count).unwrap_or(0);
        self.spec.drivers.iter().any(|driver| limit_of(driver) > old.limit(&driver.name).unwrap_or(0))
    }
}

/// A CSI driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CsiDriver {
    pub(crate) metadata: Metadata,
    pub(crate) spec: CsiDriverSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CsiDriverSpec {
    /// True if the driver publishes its capacity for the scheduler to check.
    pub(crate) storage_capacity: Option<bool>,
}

/// Storage capacity of a driver for a set of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawCapacity")]
pub struct CsiStorageCapacity {
    pub(crate) metadata: Metadata,
    pub(crate) class: Box<str>,
    /// The nodes that can access the storage; none if no node can.
    pub(crate) nodes: Option<Selector>,
    /// The largest volume that can be provisioned, in bytes; none if unknown.
    pub(crate) largest: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawCapacity {
    metadata: Metadata,
    storage_class_name: Box<str>,
    node_topology: Option<LabelSelector>,
    capacity: Option<Quantity>,
    maximum_volume_size: Option<Quantity>,
}

impl From<RawCapacity> for CsiStorageCapacity {
    fn from(raw: RawCapacity) -> Self {
        Self {
            metadata: raw.metadata,
            class: raw.storage_class_name,
            nodes: raw.node_topology.as_ref().map(parsed),
            largest: raw.maximum_volume_size.or(raw.capacity).as_ref().map(Quantity::value),
        }
    }
}

/// An attachment of a volume to a node, requested or complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeAttachment {
    pub(crate) metadata: Metadata,
    pub(crate) spec: VolumeAttachmentSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeAttachmentSpec {
    pub(crate) attacher: Box<str>,
    pub(crate) node_name: Box<str>,
    pub(crate) source: AttachmentSource,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AttachmentSource {
    pub(crate) persistent_volume_name: Option<Box<str>>,
}

impl View for CsiNode {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl View for CsiDriver {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl View for CsiStorageCapacity {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl View for VolumeAttachment {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
