//! Cached representations of volumes and the objects they depend on.

mod claim;
mod class;
mod csi;
pub(in crate::view) mod pod_volume;
mod volume;

pub(crate) use claim::{Claim, SELECTED_NODE};
pub(crate) use class::StorageClass;
pub(crate) use csi::{CsiDriver, CsiNode, CsiStorageCapacity, VolumeAttachment};
pub(crate) use pod_volume::{Disk, PodVolume};
pub(crate) use volume::{ClaimRef, PersistentVolume};

/// The annotation that preceded `storageClassName`.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The amount of `storage` in a resource list, in bytes.
fn storage_of(list: &super::resources::ResourceList) -> i64 {
    list.get("storage").map_or(0, coracle_meta::quantity::Quantity::value)
}
