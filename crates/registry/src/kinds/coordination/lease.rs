//! Lease: who holds something, and since when.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::time::Time;
use serde_json::Value;

use crate::kind::{Column, Declaration, Kind, Scope};
use crate::kinds::rules;
use crate::view;

/// The kind.
pub struct Lease;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    unconditional_update: false,
    prefixed_finalizers: false,
    create_on_update: true,
    columns: vec![Column::name(), Column::text("Holder", "who holds it"), Column::age()],
    storage_version_hash: "gqkMMb/YqFM=".into(),
    ..Declaration::new("coordination.k8s.io", &["v1"], "Lease", "leases", "lease", Scope::Namespaced)
});

impl Kind for Lease {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        drop_disabled_fields(object, None);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        drop_disabled_fields(new, Some(old));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let duration = view::integer(object, &["spec", "leaseDurationSeconds"]);
        if let Some(seconds) = duration.filter(|seconds| *seconds <= 0) {
            let path = path.child("leaseDurationSeconds");
            errors.push(FieldError::invalid(&path, seconds, "must be greater than 0"));
        }
        let transitions = view::integer(object, &["spec", "leaseTransitions"]);
        rules::not_negative(&path.child("leaseTransitions"), transitions, errors);
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let holder = view::text(object, &["spec", "holderIdentity"]);
        vec![view::name(object).into(), holder.into(), view::age(object, now)]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// Removes the fields of coordinated leader election, which is off unless asked for, where
/// they are not there already.
fn drop_disabled_fields(object: &mut Value, old: Option<&Value>) {
    for field in ["strategy", "preferredHolder"] {
        let used = old.is_some_and(|old| view::at(old, &["spec", field]).is_some());
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut).filter(|_| !used) {
            spec.remove(field);
        }
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{namespaced, with};
    use crate::samples::{Refused, Samples};

    let valid = namespaced(
        "coordination.k8s.io/v1",
        "Lease",
        json!({"spec": {
            "holderIdentity": "node-1",
            "leaseDurationSeconds": 40,
            "leaseTransitions": 0,
            "renewTime": "2026-01-02T03:04:05.000006Z",
        }}),
    );
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    Samples {
        invalid: vec![
            refused("/spec/leaseDurationSeconds", json!(0), "spec.leaseDurationSeconds", "FieldValueInvalid"),
            refused("/spec/leaseTransitions", json!(-1), "spec.leaseTransitions", "FieldValueInvalid"),
        ],
        valid: vec![valid, namespaced("coordination.k8s.io/v1", "Lease", json!({}))],
        updates: vec![json!({"spec": {"holderIdentity": "node-2", "leaseTransitions": 1}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"leaseDurationSeconds": -1}}),
            "spec.leaseDurationSeconds",
            "FieldValueInvalid",
        )],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_a_disabled_feature_are_dropped() {
        let mut lease = json!({"spec": {"strategy": "OldestEmulationVersion", "preferredHolder": "a"}});
        Lease.prepare_for_create(&mut lease, Time(0));
        assert_eq!(lease, json!({"spec": {}}));
    }
}
