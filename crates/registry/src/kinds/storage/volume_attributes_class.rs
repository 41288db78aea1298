//! VolumeAttributesClass: attributes of volumes that can change while they are used.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::parameters;
use crate::kind::{Column, Declaration, Kind, Scope, texts};
use crate::kinds::rules;
use crate::view;

/// [`Kind`] of VolumeAttributesClass objects.
pub struct VolumeAttributesClass;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    short_names: texts(&["vac"]),
    deletion_returns_object: true,
    columns: vec![Column::name(), Column::text("DriverName", "CSI driver of the class"), Column::age()],
    storage_version_hash: "tIjydgKBC5w=".into(),
    reports_changes_first: true,
    ..Declaration::new(
        "storage.k8s.io",
        &["v1"],
        "VolumeAttributesClass",
        "volumeattributesclasses",
        "volumeattributesclass",
        Scope::Cluster,
    )
});

impl Kind for VolumeAttributesClass {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let driver = view::text(object, &["driverName"]);
        parameters::check_provisioner(&Path::root("driverName"), driver, errors);
        parameters::check_parameters(object, errors);
        if view::fields(object, &["parameters"]).next().is_none() {
            let detail = "must contain at least one key/value pair";
            errors.push(FieldError::required(&Path::root("parameters"), detail));
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        for field in ["driverName", "parameters"] {
            if !rules::same(new.get(field), old.get(field)) {
                let detail = format!("updates to {field} are forbidden.");
                errors.push(FieldError::forbidden(&Path::root(field), detail));
            }
        }
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let driver = view::text(object, &["driverName"]);
        vec![view::name(object).into(), driver.into(), view::age(object, now)]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let fields = json!({"driverName": "disk.example.com", "parameters": {"iops": "4000"}});
    let valid = cluster("storage.k8s.io/v1", "VolumeAttributesClass", fields);
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    Samples {
        invalid: vec![
            refused("/driverName", Value::Null, "driverName", "FieldValueRequired"),
            refused("/driverName", json!("a b"), "driverName", "FieldValueInvalid"),
            refused("/parameters", json!({}), "parameters", "FieldValueRequired"),
            refused("/parameters", json!({"": ""}), "parameters", "FieldValueInvalid"),
        ],
        valid: vec![valid],
        updates: vec![json!({"metadata": {"labels": {"a": "b"}}})],
        invalid_updates: vec![
            Refused::new(json!({"driverName": "other"}), "driverName", "FieldValueForbidden"),
            Refused::new(json!({"parameters": {"iops": "1"}}), "parameters", "FieldValueForbidden"),
        ],
    }
}
