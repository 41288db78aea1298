//! CSINode: the CSI drivers of a node.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::driver_name;
use crate::kind::{Column, Declaration, Kind, Scope};
use crate::kinds::rules;
use crate::view;

/// Maximum length of a driver's ID for a node, as in the CSI specification.
const NODE_ID_MAX_LENGTH: usize = 256;

/// [`Kind`] of CSINode objects.
pub struct CsiNode;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    checks_metadata_change_again: false,
    metadata_checks: 1,
    unconditional_update: false,
    deletion_returns_object: true,
    columns: vec![
        Column::name(),
        Column::integer("Drivers", "number of CSI drivers on the node"),
        Column::age(),
    ],
    storage_version_hash: "Pe62DkZtjuo=".into(),
    ..Declaration::new("storage.k8s.io", &["v1"], "CSINode", "csinodes", "csinode", Scope::Cluster)
});

impl Kind for CsiNode {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec.drivers");
        let mut seen = BTreeSet::new();
        for (index, driver) in view::items(object, &["spec", "drivers"]).iter().enumerate() {
            let path = path.index(index);
            check_driver(driver, &path, errors);
            let name = view::text(driver, &["name"]);
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(&path.child("name"), name));
            }
            check_topology_keys(driver, &path, errors);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec.drivers");
        for old_driver in view::items(old, &["spec", "drivers"]) {
            for new_driver in view::items(new, &["spec", "drivers"]) {
                if new_driver.get("name") == old_driver.get("name") {
                    let (new_driver, old_driver) = (immutable_part(new_driver), immutable_part(old_driver));
                    rules::unchanged(
                        "@storage.CSINodeDriver",
                        &path,
                        Some(&new_driver),
                        Some(&old_driver),
                        errors,
                    );
                }
            }
        }
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let drivers = view::items(object, &["spec", "drivers"]).len();
        vec![view::name(object).into(), drivers.into(), view::age(object, now)]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// The driver without the number of volumes that it supports, its only mutable field.
fn immutable_part(driver: &Value) -> Value {
    let mut driver = driver.clone();
    if let Value::Object(fields) = &mut driver {
        fields.remove("allocatable");
    }
    driver
}

fn check_driver(driver: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    driver_name(&path.child("name"), view::text(driver, &["name"]), errors);
    let (node_id, id_path) = (view::text(driver, &["nodeID"]), path.child("nodeID"));
    rules::required(&id_path, node_id, errors);
    if node_id.len() > NODE_ID_MAX_LENGTH {
        let detail = format!("must be {NODE_ID_MAX_LENGTH} characters or less");
        errors.push(FieldError::invalid(&id_path, node_id, detail));
    }
    let count = view::integer(driver, &["allocatable", "count"]);
    rules::not_negative(&path.child("allocatable.count"), count, errors);
}

/// Validates the topology keys. kube-apiserver reports errors at the driver, not at the key.
fn check_topology_keys(driver: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for key in view::items(driver, &["topologyKeys"]).iter().filter_map(Value::as_str) {
        rules::required(path, key, errors);
        if !seen.insert(key) {
            errors.push(FieldError::duplicate(path, key));
        }
        rules::each_message(path, key, name::qualified_name(key), errors);
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let driver = json!({
        "name": "disk.example.com",
        "nodeID": "node-1",
        "topologyKeys": ["example.com/zone"],
        "allocatable": {"count": 10},
    });
    let valid = cluster("storage.k8s.io/v1", "CSINode", json!({"spec": {"drivers": [driver]}}));
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    Samples {
        invalid: vec![
            refused("/spec/drivers/0/name", json!(""), "spec.drivers[0].name", "FieldValueRequired"),
            refused("/spec/drivers/0/name", json!("a b"), "spec.drivers[0].name", "FieldValueInvalid"),
            refused(
                "/spec/drivers/0/name",
                json!("a".repeat(64)),
                "spec.drivers[0].name",
                "FieldValueTooLong",
            ),
            refused("/spec/drivers/0/nodeID", json!(""), "spec.drivers[0].nodeID", "FieldValueRequired"),
            refused(
                "/spec/drivers/0/nodeID",
                json!("a".repeat(257)),
                "spec.drivers[0].nodeID",
                "FieldValueInvalid",
            ),
            refused(
                "/spec/drivers/0/allocatable/count",
                json!(-1),
                "spec.drivers[0].allocatable.count",
                "FieldValueInvalid",
            ),
            refused(
                "/spec/drivers/0/topologyKeys",
                json!(["a", "a"]),
                "spec.drivers[0]",
                "FieldValueDuplicate",
            ),
            refused("/spec/drivers", json!([driver, driver]), "spec.drivers[1].name", "FieldValueDuplicate"),
        ],
        updates: vec![json!({"spec": {"drivers": [with(&driver, "/allocatable/count", json!(20))]}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"drivers": [with(&driver, "/nodeID", json!("other"))]}}),
            "spec.drivers",
            "FieldValueInvalid",
        )],
        valid: vec![valid],
    }
}
