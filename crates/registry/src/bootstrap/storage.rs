//! The default StorageClass: directories on the node where a claim is first used.
//!
//! Users with other storage delete it, or remove the annotation that makes it the default; it is not restored.

use serde_json::json;

use super::objects::Seed;
use crate::kinds::storage::storage_class::StorageClass;

/// Its name, as in most small distributions of Kubernetes.
const NAME: &str = "standard";

/// The provisioner of its volumes: Coracle's persistent volume controller.
const PROVISIONER: &str = "coracle.dev/local";

pub(super) fn seeds() -> [Seed; 1] {
    let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    let object = json!({
        "metadata": {"name": NAME, "annotations": annotations},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        // A directory has no size limit of its own.
        "allowVolumeExpansion": true,
        // A directory is on one node, so the pod has to be scheduled before the volume is created.
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    [Seed::new(&StorageClass, "", object)]
}

/// Whether deleted bootstrap objects of a kind are not restored.
pub(super) fn stays_deleted(kind: &str) -> bool {
    kind == "StorageClass"
}
