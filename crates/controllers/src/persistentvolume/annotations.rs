//! Annotations, phases and storage classes of volumes and claims.

use crate::view::{PersistentVolume, PersistentVolumeClaim, StorageClass};

/// On claims: the binding was completed.
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// On volumes and claims: this side of the binding was made by the controller, not the user.
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// On claims: the node of the first pod, selected by the scheduler, which starts provisioning.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// On volumes: the provisioner.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// On claims: the provisioner that is to create the volume.
pub(super) const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
pub(super) const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";

/// On volumes: the CSI driver that manages the volume after migration.
pub(super) const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";

/// On volumes and claims: storage class, instead of the field.
const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// On storage classes: marks the default class.
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// Resource name of the storage capacity.
pub(super) const STORAGE: &str = "storage";

pub(super) mod phase {
    pub(in super::super) const AVAILABLE: &str = "Available";
    pub(in super::super) const BOUND: &str = "Bound";
    pub(in super::super) const FAILED: &str = "Failed";
    pub(in super::super) const LOST: &str = "Lost";
    pub(in super::super) const PENDING: &str = "Pending";
    pub(in super::super) const RELEASED: &str = "Released";
}

/// Storage class of a claim; empty for none.
pub(super) fn class_of_claim(claim: &PersistentVolumeClaim) -> &str {
    let annotated = claim.metadata.annotations.get(BETA_STORAGE_CLASS);
    annotated.or(claim.spec.storage_class_name.as_deref()).unwrap_or_default()
}

/// True if a claim sets its storage class, even to none.
pub(super) fn has_class(claim: &PersistentVolumeClaim) -> bool {
    claim.metadata.annotations.contains_key(BETA_STORAGE_CLASS) || claim.spec.storage_class_name.is_some()
}

/// Storage class of a volume; empty for none.
pub(super) fn class_of_volume(volume: &PersistentVolume) -> &str {
    volume.metadata.annotations.get(BETA_STORAGE_CLASS).unwrap_or(&volume.spec.storage_class_name)
}

/// True for a default class.
pub(super) fn is_default(class: &StorageClass) -> bool {
    DEFAULT_CLASS.iter().any(|annotation| class.metadata.annotations.get(annotation) == Some("true"))
}

/// True if claims of the class are bound only when a pod uses them.
pub(super) fn waits_for_consumer(class: &StorageClass) -> bool {
    &*class.volume_binding_mode == "WaitForFirstConsumer"
}

/// True if the binding was completed.
pub(super) fn is_bind_completed(claim: &PersistentVolumeClaim) -> bool {
    claim.metadata.annotations.contains_key(BIND_COMPLETED)
}

/// True if a volume is bound to a claim or reserved for it.
pub(super) fn is_bound_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let metadata = &claim.metadata;
    volume.spec.claim_ref.as_ref().is_some_and(|bound| {
        *bound.name == *metadata.name()
            && *bound.namespace == *metadata.namespace()
            && (bound.uid.is_empty() || *bound.uid == *metadata.uid())
    })
}
