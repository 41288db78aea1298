//! StorageObjectInUseProtection: storage stays for as long as somebody uses it.
//!
//! Whoever knows that nobody does takes the finalizer away; that is not done here.

use coracle_meta::object::MetaMut;
use coracle_registry::Result;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use serde_json::Value;

use super::PERSISTENT_VOLUME_CLAIMS;
use super::plugin::{Plugin, Rule, nothing_to_say};

/// What is protected, and by which finalizer.
const PROTECTED: [(&str, &str, &str); 3] = [
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", PERSISTENT_VOLUME_CLAIMS, "kubernetes.io/pvc-protection"),
    ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
];

/// The plugin.
pub(super) struct StorageObjectInUseProtection;

impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &str {
        "StorageObjectInUseProtection"
    }

    fn mutates(&self) -> Vec<Rule> {
        PROTECTED.map(|(group, resource, _)| Rule::new(group, resource, &[Operation::Create])).into()
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        let resource = &attributes.write.kind.declaration().plural;
        let finalizer = PROTECTED.iter().find(|(_, protected, _)| protected == resource);
        if let (Some((_, _, finalizer)), Some(mut meta)) = (finalizer, MetaMut::of(object)) {
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
    use coracle_registry::kinds::storage::volume_attributes_class::VolumeAttributesClass;
    use serde_json::json;

    use super::super::testing::Bench;
    use super::*;

    #[tokio::test]
    async fn each_kind_has_its_finalizer_once() {
        let bench = Bench::new().await;
        let kinds: [(&dyn Kind, &str); 3] = [
            (&PersistentVolume, "kubernetes.io/pv-protection"),
            (&PersistentVolumeClaim, "kubernetes.io/pvc-protection"),
            (&VolumeAttributesClass, "kubernetes.io/vac-protection"),
        ];
        for (kind, finalizer) in kinds {
            let object = json!({"metadata": {"name": "a", "finalizers": ["b"]}});
            let object = bench.admit_new(StorageObjectInUseProtection, kind, object).await.unwrap();
            assert_eq!(object["metadata"]["finalizers"], json!(["b", finalizer]));
            let again = bench.admit_new(StorageObjectInUseProtection, kind, object.clone()).await.unwrap();
            assert_eq!(again, object);
        }
    }
}
