//! ResourceClaim: a request for devices, and its allocation.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, Path};
use coracle_meta::time::Time;
use serde_json::Value;

use super::{admin_access, allocation, device_requests};
use crate::kind::{Column, Declaration, Kind, NamespaceLabel, Scope, StatusMetadata, Subresource};
use crate::kinds::rules;
use crate::view;

/// [`Kind`] of ResourceClaim objects.
pub struct ResourceClaim;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    subresources: vec![Subresource::status("ResourceClaim")],
    status_metadata: StatusMetadata::Kept,
    deletion_returns_object: true,
    columns: vec![
        Column::name(),
        Column::text("State", "whether devices are allocated and reserved"),
        Column::age(),
    ],
    storage_version_hash: "wgAZaHcZxUg=".into(),
    ..Declaration::new(
        "resource.k8s.io",
        &["v1"],
        "ResourceClaim",
        "resourceclaims",
        "resourceclaim",
        Scope::Namespaced,
    )
});

impl Kind for ResourceClaim {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        device_requests::set_defaults(object, "/spec/devices");
        allocation::set_defaults(object);
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _now: Time) {
        allocation::drop_deallocated(new, old);
    }

    /// The spec cannot change, so its requests need the label only when it is new.
    fn needed_namespace_label(
        &self,
        new: &Value,
        old: Option<&Value>,
        subresource: &str,
    ) -> Option<NamespaceLabel> {
        match old {
            None => admin_access::of_requests(view::items(new, &["spec", "devices", "requests"])),
            Some(old) if subresource == "status" => admin_access::of_status(new, old),
            Some(_) => None,
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        if let Some(devices) = view::at(object, &["spec", "devices"]) {
            device_requests::check(devices, &Path::root("spec.devices"), errors);
        }
    }

    /// Nothing: the spec is immutable, and was validated on creation.
    fn revalidate(&self, _new: &Value, _old: &Value, _errors: &mut ErrorList) {}

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        rules::unchanged(
            "@resource.ResourceClaimSpec",
            &Path::root("spec"),
            new.get("spec"),
            old.get("spec"),
            errors,
        );
    }

    fn validate_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        allocation::check_status(new, old, errors);
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        vec![view::name(object).into(), state(object).into(), view::age(object, now)]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        let requests = serde_json::json!({"spec": {"devices": {"requests": [{"name": "No Name"}]}}});
        vec![crate::samples::Stored::of(&self.samples().valid[0], &requests)]
    }
}

fn state(object: &Value) -> String {
    let deleted = view::at(object, &["metadata", "deletionTimestamp"]).is_some();
    let allocated = view::at(object, &["status", "allocation"]).is_some();
    let reserved = !view::items(object, &["status", "reservedFor"]).is_empty();
    let states = [
        (deleted, "deleted"),
        (!deleted && !allocated, "pending"),
        (allocated, "allocated"),
        (allocated && reserved, "reserved"),
    ];
    let states: Vec<_> = states.into_iter().filter_map(|(holds, state)| holds.then_some(state)).collect();
    states.join(",")
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{namespaced, with};
    use crate::samples::{Refused, Samples};

    let claim = |devices: Value| {
        namespaced("resource.k8s.io/v1", "ResourceClaim", json!({"spec": {"devices": devices}}))
    };
    let valid = device_requests::sample();
    let invalid = device_requests::invalid_changes().into_iter().map(|(pointer, value, field, reason)| {
        Refused::new(claim(with(&valid, pointer, value)), field, reason)
    });
    Samples {
        invalid: invalid.collect(),
        valid: vec![claim(valid), namespaced("resource.k8s.io/v1", "ResourceClaim", json!({"spec": {}}))],
        updates: vec![json!({"metadata": {"labels": {"a": "b"}}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"devices": {"constraints": []}}}),
            "spec",
            "FieldValueInvalid",
        )],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(status: Value) -> Value {
        let mut claim = samples().valid.remove(0);
        claim["status"] = status;
        claim
    }

    fn allocated() -> Value {
        let result =
            json!({"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"});
        json!({"devices": {"results": [result]}})
    }

    fn faults(new: &Value, old: &Value) -> Vec<String> {
        let mut errors = ErrorList::default();
        ResourceClaim.validate_status_update(new, old, &mut errors);
        errors.iter().map(|error| error.field.clone()).collect()
    }

    #[test]
    fn allocation_is_validated_once_and_immutable() {
        let pending = claim(json!({}));
        let new = claim(
            json!({"allocation": allocated(), "reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}]}),
        );
        assert!(faults(&new, &pending).is_empty());
        assert_eq!(state(&new), "allocated,reserved");
        let mut other = new.clone();
        other["status"]["allocation"]["devices"]["results"][0]["device"] = json!("gpu-1");
        assert_eq!(faults(&other, &new), ["status.allocation"]);
        other["status"]["allocation"]["devices"]["results"][0]["request"] = json!("x");
        assert_eq!(faults(&other, &pending), ["status.allocation.devices.results[0].request"]);
        let reserved = claim(json!({"reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}]}));
        assert_eq!(faults(&reserved, &pending), ["status.reservedFor"]);
    }

    #[test]
    fn report_about_unallocated_device_is_rejected() {
        let report = json!({"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0", "networkData": {"ips": ["10.0.0.1/24"]}});
        let old = claim(json!({"allocation": allocated()}));
        let new = claim(json!({"allocation": allocated(), "devices": [report]}));
        assert!(faults(&new, &old).is_empty());
        let mut freed = claim(json!({"devices": [report]}));
        assert_eq!(faults(&freed, &old), ["status.devices[0]"]);
        ResourceClaim.prepare_for_status_update(&mut freed, &old, Time(0));
        assert_eq!(freed["status"], json!({}));
    }
}
