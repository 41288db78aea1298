//! The words of volumes and claims: annotations and phases, and which class each is of.

use crate::view::{PersistentVolume, PersistentVolumeClaim, StorageClass};

/// On a claim: its binding was completed once.
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// On a volume or a claim: its side of the binding is the controller's doing, not the user's.
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// On a claim: the node its first pod will run on, which starts its provisioning.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// On a volume: who made it.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// On a claim: who is to make a volume for it.
pub(super) const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
pub(super) const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";

/// On a volume: a driver has taken it over, and takes care of it.
pub(super) const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";

/// On a volume or a claim, instead of the field.
const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// On a class: claims that name none get it.
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// The resource that volumes have and claims want.
pub(super) const STORAGE: &str = "storage";

pub(super) mod phase {
    pub(in super::super) const AVAILABLE: &str = "Available";
    pub(in super::super) const BOUND: &str = "Bound";
    pub(in super::super) const FAILED: &str = "Failed";
    pub(in super::super) const LOST: &str = "Lost";
    pub(in super::super) const PENDING: &str = "Pending";
    pub(in super::super) const RELEASED: &str = "Released";
}

/// The class a claim asks for; empty for none.
pub(super) fn class_of_claim(claim: &PersistentVolumeClaim) -> &str {
    let annotated = claim.metadata.annotations.get(BETA_STORAGE_CLASS);
    annotated.or(claim.spec.storage_class_name.as_deref()).unwrap_or_default()
}

/// Whether a claim says which class it wants, if only that it wants none.
pub(super) fn has_class(claim: &PersistentVolumeClaim) -> bool {
    claim.metadata.annotations.contains_key(BETA_STORAGE_CLASS) || claim.spec.storage_class_name.is_some()
}

/// The class a volume is of; empty for none.
pub(super) fn class_of_volume(volume: &PersistentVolume) -> &str {
    volume.metadata.annotations.get(BETA_STORAGE_CLASS).unwrap_or(&volume.spec.storage_class_name)
}

/// Whether claims that name no class get this one.
pub(super) fn is_default(class: &StorageClass) -> bool {
    DEFAULT_CLASS.iter().any(|annotation| class.metadata.annotations.get(annotation) == Some("true"))
}

/// Whether a claim of the class is bound only when it is known where it is needed.
pub(super) fn waits_for_consumer(class: &StorageClass) -> bool {
    &*class.volume_binding_mode == "WaitForFirstConsumer"
}

/// Whether a binding was completed once.
pub(super) fn is_bind_completed(claim: &PersistentVolumeClaim) -> bool {
    claim.metadata.annotations.contains_key(BIND_COMPLETED)
}

/// Whether a volume is bound to a claim or reserved for it.
pub(super) fn is_bound_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let metadata = &claim.metadata;
    volume.spec.claim_ref.as_ref().is_some_and(|bound| {
        *bound.name == *metadata.name()
            && *bound.namespace == *metadata.namespace()
            && (bound.uid.is_empty() || *bound.uid == *metadata.uid())
    })
}
