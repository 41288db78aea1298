//! Of volumes and what they are made from, what decides where pods that use them may run.

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

/// Where the class of a volume or claim stood before it had a field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// How much room a list asks for or has, in bytes.
fn storage_of(list: &super::resources::ResourceList) -> i64 {
    list.get("storage").map_or(0, coracle_meta::quantity::Quantity::value)
}
