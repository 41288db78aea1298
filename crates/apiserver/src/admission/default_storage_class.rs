//! DefaultStorageClass: sets the default class on persistent volume claims that name none.

use coracle_meta::object::Meta;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::storage::storage_class::StorageClass;
use coracle_registry::{Result, view};
use serde_json::Value;

use super::default_class::newest_default;
use super::plugin::{Plugin, Rule};
use super::{PERSISTENT_VOLUME_CLAIMS, read};

const IS_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// The annotation that named the class before there was a field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) struct DefaultStorageClass;

impl Plugin for DefaultStorageClass {
    fn name(&self) -> &str {
        "DefaultStorageClass"
    }

    fn mutates(&self) -> Vec<Rule> {
        vec![Rule::new("", PERSISTENT_VOLUME_CLAIMS, &[Operation::Create])]
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        claim: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let has_class = Meta::of(claim).annotation(CLASS_ANNOTATION).is_some()
                || view::at(claim, &["spec", "storageClassName"]).is_some();
            if has_class {
                return Ok(());
            }
            let classes = attributes.cluster.find_all(&StorageClass, "").await?;
            if let Some(class) = newest_default(&classes, &IS_DEFAULT) {
                *read::entry(claim, &["spec", "storageClassName"]) = view::name(class).into();
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::core::persistent_volume_claim::PersistentVolumeClaim;
    use serde_json::json;

    use super::super::testing::Bench;
    use super::*;

    async fn check(bench: &Bench, claim: Value, expected: Option<&str>) {
        let admitted = bench.admit_new(DefaultStorageClass, &PersistentVolumeClaim, claim).await.unwrap();
        assert_eq!(view::at(&admitted, &["spec", "storageClassName"]).and_then(Value::as_str), expected);
    }

    #[tokio::test]
    async fn claim_without_class_gets_the_default() {
        let bench = Bench::new().await;
        let plain = json!({"metadata": {"name": "c"}, "spec": {}});
        check(&bench, plain.clone(), None).await;
        bench
            .create(
                &StorageClass,
                json!({
                    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "x/y",
                    "metadata": {"name": "fast", "annotations": {IS_DEFAULT[0]: "true"}},
                }),
            )
            .await;
        check(&bench, plain, Some("fast")).await;
        let none = json!({"metadata": {"name": "c"}, "spec": {"storageClassName": ""}});
        check(&bench, none, Some("")).await;
        let old = json!({"metadata": {"name": "c", "annotations": {CLASS_ANNOTATION: "slow"}}, "spec": {}});
        check(&bench, old, None).await;
    }
}
