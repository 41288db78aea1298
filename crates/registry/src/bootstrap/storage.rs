//! The class of storage that claims get which name none: directories on the node where they are first used.
//!
//! Whoever has storage of another sort deletes it, or takes the mark of the default from it; it does not come
//! back.

use serde_json::json;

use super::objects::Seed;
use crate::kinds::storage::storage_class::StorageClass;

/// Its name, as in most small distributions of Kubernetes.
const NAME: &str = "standard";

/// Who makes its volumes: the binder among the controllers.
const PROVISIONER: &str = "coracle.dev/local";

pub(super) fn seeds() -> [Seed; 1] {
    let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    let object = json!({
        "metadata": {"name": NAME, "annotations": annotations},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        // A directory has no size of its own.
        "allowVolumeExpansion": true,
        // A directory is on one node, so the pod has to be somewhere before it is.
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    [Seed::new(&StorageClass, "", object)]
}

/// Whether a kind is one of those whose objects stay deleted.
pub(super) fn stays_deleted(kind: &str) -> bool {
    kind == "StorageClass"
}
