//! PersistentVolumeClaimResize: a claim may grow only if its storage class allows volume expansion.

use coracle_api::usage::storage_class;
use coracle_meta::quantity::Quantity;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::storage::storage_class::StorageClass;
use coracle_registry::{Result, view};
use serde_json::Value;

use super::PERSISTENT_VOLUME_CLAIMS;
use super::plugin::{Plugin, Rule, forbidden};

pub(super) struct PersistentVolumeClaimResize;

impl Plugin for PersistentVolumeClaimResize {
    fn name(&self) -> &str {
        "PersistentVolumeClaimResize"
    }

    fn validates(&self) -> Vec<Rule> {
        vec![Rule::new("", PERSISTENT_VOLUME_CLAIMS, &[Operation::Update])]
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        claim: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let Some(old) = attributes.old.filter(|old| size(claim) > size(old)) else { return Ok(()) };
            if view::text(old, &["status", "phase"]) != "Bound" {
                let message = "Only bound persistent volume claims can be expanded";
                return Err(forbidden(attributes, claim, message));
            }
            if !may_grow(attributes, claim, old).await? {
                let message = "only dynamically provisioned pvc can be resized and the storageclass that \
                               provisions the pvc must support resize";
                return Err(forbidden(attributes, claim, message));
            }
            Ok(())
        })
    }
}

fn size(claim: &Value) -> Quantity {
    view::at(claim, &["spec", "resources", "requests", "storage"])
        .and_then(|amount| Quantity::from_json(amount).ok())
        .unwrap_or_default()
}

async fn may_grow(attributes: &Attributes<'_>, claim: &Value, old: &Value) -> Result<bool> {
    let name = storage_class(claim);
    if name.is_empty() || name != storage_class(old) {
        return Ok(false);
    }
    let class = attributes.cluster.find(&StorageClass, "", name).await?;
    Ok(class.is_some_and(|class| view::is_true(&class, &["allowVolumeExpansion"])))
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::core::persistent_volume_claim::PersistentVolumeClaim;
    use serde_json::json;

    use super::super::testing::Bench;
    use super::*;

    fn claim(class: &str, size: &str, phase: &str) -> Value {
        json!({
            "metadata": {"name": "c"},
            "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
            "status": {"phase": phase},
        })
    }

    async fn check(bench: &Bench, old: Value, size: &str, refused: Option<&str>) {
        let mut new = old.clone();
        new["spec"]["resources"]["requests"]["storage"] = size.into();
        let plugin = PersistentVolumeClaimResize;
        let outcome = bench.admit_update(plugin, &PersistentVolumeClaim, "", &old, new).await;
        let message = |reason| format!("persistentvolumeclaims \"c\" is forbidden: {reason}");
        assert_eq!(outcome.err(), refused.map(message));
    }

    #[tokio::test]
    async fn growth_requires_a_bound_claim_and_an_expandable_class() {
        let bench = Bench::new().await;
        for (name, allowed) in [("grows", true), ("stays", false)] {
            let class = json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "x/y",
                "metadata": {"name": name}, "allowVolumeExpansion": allowed,
            });
            bench.create(&StorageClass, class).await;
        }
        let unbound = "Only bound persistent volume claims can be expanded";
        let fixed = "only dynamically provisioned pvc can be resized and the storageclass that provisions \
                     the pvc must support resize";
        check(&bench, claim("grows", "1Gi", "Bound"), "2Gi", None).await;
        check(&bench, claim("stays", "1Gi", "Bound"), "1024Mi", None).await;
        check(&bench, claim("stays", "2Gi", "Bound"), "1Gi", None).await;
        check(&bench, claim("grows", "1Gi", "Pending"), "2Gi", Some(unbound)).await;
        check(&bench, claim("stays", "1Gi", "Bound"), "2Gi", Some(fixed)).await;
        check(&bench, claim("gone", "1Gi", "Bound"), "2Gi", Some(fixed)).await;
        check(&bench, claim("", "1Gi", "Bound"), "2Gi", Some(fixed)).await;
    }
}
