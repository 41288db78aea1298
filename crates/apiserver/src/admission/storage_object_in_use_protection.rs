//! StorageObjectInUseProtection: adds a finalizer to claims, volumes and volume attributes classes, so that they are
//! not deleted while in use. Controllers remove it.

use coracle_meta::object::MetaMut;
use coracle_registry::Result;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use serde_json::Value;

use super::PERSISTENT_VOLUME_CLAIMS;
use super::plugin::{Plugin, Rule, nothing_to_say};

/// Protected resources and their finalizers (`pkg/volume/util/finalizer.go`): group, resource, finalizer.
const PROTECTED: [(&str, &str, &str); 3] = [
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", PERSISTENT_VOLUME_CLAIMS, "kubernetes.io/pvc-protection"),
    ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
];

pub(super) struct StorageObjectInUseProtection;

impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &str {
        "StorageObjectInUseProtection"
    }

    fn mutates(&self) -> Vec<Rule> {
        let rule = |(group, resource, _)| Rule::new(group, resource, &[Operation::Create]);
        PROTECTED.into_iter().map(rule).collect()
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        let resource = &*attributes.write.kind.declaration().plural;
        let found = PROTECTED.into_iter().find(|(_, protected, _)| *protected == resource);
        if let (Some((_, _, finalizer)), Some(mut meta)) = (found, MetaMut::of(object)) {
            meta.add_finalizer(finalizer);
        }
        nothing_to_say()
    }
}

#[cfg(test)]
mod tests {
    use coracle_registry::Kind;
    use coracle_registry::kinds::core::persistent_volume::PersistentVolume;
    use coracle_registry::kinds::core::persistent_volume_claim::PersistentVolumeClaim;
    use coracle_registry::kinds::storage::storage_class::StorageClass;
    use coracle_registry::kinds::storage::volume_attributes_class::VolumeAttributesClass;
    use serde_json::json;

    use super::super::testing::{Bench, only};
    use super::*;

    async fn finalizers(kind: &dyn Kind, operation: Operation, before: Value) -> Value {
        let object = json!({"metadata": {"name": "a", "finalizers": before}});
        let chain = only(StorageObjectInUseProtection);
        let mut admitted = Bench::new().await.admit(&chain, kind, operation, object).await.unwrap();
        admitted["metadata"]["finalizers"].take()
    }

    #[tokio::test]
    async fn new_objects_get_their_finalizer() {
        let kinds: [(&dyn Kind, &str); 3] = [
            (&PersistentVolume, "kubernetes.io/pv-protection"),
            (&PersistentVolumeClaim, "kubernetes.io/pvc-protection"),
            (&VolumeAttributesClass, "kubernetes.io/vac-protection"),
        ];
        for (kind, finalizer) in kinds {
            let create = Operation::Create;
            assert_eq!(finalizers(kind, create, json!([])).await, json!([finalizer]));
            assert_eq!(finalizers(kind, create, json!(["a/b"])).await, json!(["a/b", finalizer]));
            let both = json!([finalizer, "a/b"]);
            assert_eq!(finalizers(kind, create, both.clone()).await, both, "only once");
            assert_eq!(finalizers(kind, Operation::Update, json!([])).await, json!([]));
        }
        assert_eq!(finalizers(&StorageClass, Operation::Create, json!([])).await, json!([]));
    }
}
