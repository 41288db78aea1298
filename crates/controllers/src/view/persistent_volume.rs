//! Views of PersistentVolumes and StorageClasses.

use coracle_runtime::informer::{Labels, Metadata, ObjectMetadata, View};
use coracle_runtime::{Informer, Manager, Selection};
use serde::{Deserialize, Serialize};

use super::ObjectView;

/// Informer of all volumes.
pub(crate) fn volumes(manager: &mut Manager) -> Informer<PersistentVolume> {
    manager.informer(Selection::of::<k8s_openapi::api::core::v1::PersistentVolume>())
}

/// Informer of all storage classes.
pub(crate) fn storage_classes(manager: &mut Manager) -> Informer<StorageClass> {
    manager.informer(Selection::of::<k8s_openapi::api::storage::v1::StorageClass>())
}

/// View of a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PersistentVolume {
    pub(crate) metadata: ObjectMetadata,
    pub(crate) spec: VolumeSpec,
    pub(crate) status: VolumeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeSpec {
    /// Amounts by resource.
    pub(crate) capacity: Labels,
    pub(crate) access_modes: Box<[Box<str>]>,
    /// The claim that it is bound to or reserved for.
    pub(crate) claim_ref: Option<ClaimReference>,
    pub(crate) persistent_volume_reclaim_policy: Box<str>,
    pub(crate) storage_class_name: Box<str>,
    pub(crate) volume_mode: Option<Box<str>>,
    pub(crate) volume_attributes_class_name: Option<Box<str>>,
    /// Set for CSI volumes, which their driver manages.
    pub(crate) csi: Option<CsiSource>,
    pub(crate) host_path: Option<HostPathSource>,
    pub(crate) nfs: Option<NfsSource>,
}

/// See [`VolumeSpec::csi`].
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct CsiSource {}

/// Marks an NFS volume.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct NfsSource {}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HostPathSource {
    pub(crate) path: Box<str>,
}

/// Reference to a claim. Without a uid it matches any claim of that name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimReference {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeStatus {
    pub(crate) phase: Box<str>,
}

/// View of a storage class.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StorageClass {
    pub(crate) metadata: ObjectMetadata,
    /// Provisioner of the class's volumes.
    pub(crate) provisioner: Box<str>,
    pub(crate) reclaim_policy: Box<str>,
    /// `Immediate` or `WaitForFirstConsumer`.
    pub(crate) volume_binding_mode: Box<str>,
    pub(crate) mount_options: Box<[Box<str>]>,
}

macro_rules! described {
    ($($view:ty),*) => {$(
        impl View for $view {
            fn metadata(&self) -> &Metadata {
                &self.metadata.plain
            }
        }

        impl ObjectView for $view {
            fn object_metadata(&self) -> &ObjectMetadata {
                &self.metadata
            }
        }
    )*};
}

described!(PersistentVolume, StorageClass);
