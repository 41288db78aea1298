//! StorageClass: how volumes of a class are provisioned.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, Path};
use serde_json::Value;

use super::{parameters, topology};
use crate::kind::{Column, Declaration, Kind, Scope, texts};
use crate::kinds::rules;
use crate::view;

/// [`Kind`] of StorageClass objects.
pub struct StorageClass;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    short_names: texts(&["sc"]),
    deletion_returns_object: true,
    columns: vec![
        Column::name(),
        Column::text("Provisioner", "provisioner of the volumes"),
        Column::text("ReclaimPolicy", "reclaim policy of the volumes"),
        Column::text("VolumeBindingMode", "time of provisioning and binding"),
        Column::text("AllowVolumeExpansion", "whether volumes can be expanded"),
        Column::age(),
    ],
    storage_version_hash: "K+m6uJwbjGY=".into(),
    ..Declaration::new(
        "storage.k8s.io",
        &["v1"],
        "StorageClass",
        "storageclasses",
        "storageclass",
        Scope::Cluster,
    )
});

impl Kind for StorageClass {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        view::set_default(object, "reclaimPolicy", || "Delete".into());
        view::set_default(object, "volumeBindingMode", || "Immediate".into());
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        parameters::check_provisioner(
            &Path::root("provisioner"),
            view::text(object, &["provisioner"]),
            errors,
        );
        parameters::check_parameters(object, errors);
        let policy = view::text(object, &["reclaimPolicy"]);
        if !policy.is_empty() {
            rules::one_of(&Path::root("reclaimPolicy"), policy, &["Delete", "Retain"], errors);
        }
        let mode = view::text(object, &["volumeBindingMode"]);
        let modes = ["Immediate", "WaitForFirstConsumer"];
        rules::one_of(&Path::root("volumeBindingMode"), mode, &modes, errors);
        topology::check_allowed_topologies(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let fields = [
            ("parameters", "{s"),
            ("provisioner", "s"),
            ("reclaimPolicy", "*s"),
            ("volumeBindingMode", "*s"),
        ];
        for (field, shape) in fields {
            rules::unchanged(shape, &Path::root(field), new.get(field), old.get(field), errors);
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        topology::warnings(new)
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let mut name = view::name(object).to_owned();
        if is_default(object) {
            name.push_str(" (default)");
        }
        let or =
            |field: &str, default: &str| object.get(field).cloned().unwrap_or_else(|| Value::from(default));
        vec![
            name.into(),
            view::text(object, &["provisioner"]).into(),
            or("reclaimPolicy", "Delete"),
            or("volumeBindingMode", "Immediate"),
            view::is_true(object, &["allowVolumeExpansion"]).into(),
            view::age(object, now),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// Returns true for the default class, which applies to claims without a class.
fn is_default(object: &Value) -> bool {
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
        .into_iter()
        .any(|key| view::text(object, &["metadata", "annotations", key]) == "true")
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let valid = cluster(
        "storage.k8s.io/v1",
        "StorageClass",
        json!({
            "provisioner": "example.com/disk",
            "parameters": {"type": "fast"},
            "allowVolumeExpansion": true,
            "mountOptions": ["ro"],
            "allowedTopologies": [
                {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["a", "b"]}]}
            ],
        }),
    );
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let term = json!({"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]});
    let large = json!({"key": "x".repeat(parameters::MAX_TOTAL_BYTES)});
    Samples {
        invalid: vec![
            refused("/provisioner", json!(""), "provisioner", "FieldValueRequired"),
            refused("/provisioner", json!("a/b/c"), "provisioner", "FieldValueInvalid"),
            refused("/parameters", json!({"": "x"}), "parameters", "FieldValueInvalid"),
            refused("/parameters", large, "parameters", "FieldValueTooLong"),
            refused("/reclaimPolicy", json!("Recycle"), "reclaimPolicy", "FieldValueNotSupported"),
            refused("/volumeBindingMode", json!("Late"), "volumeBindingMode", "FieldValueNotSupported"),
            refused(
                "/allowedTopologies",
                json!([term, term]),
                "allowedTopologies[1].matchLabelExpressions",
                "FieldValueDuplicate",
            ),
            refused(
                "/allowedTopologies/0/matchLabelExpressions/0/values",
                json!([]),
                "allowedTopologies[0].matchLabelExpressions[0].values",
                "FieldValueRequired",
            ),
        ],
        valid: vec![valid, cluster("storage.k8s.io/v1", "StorageClass", json!({"provisioner": "none"}))],
        updates: vec![json!({"allowVolumeExpansion": false}), json!({"mountOptions": null})],
        invalid_updates: vec![
            Refused::new(json!({"provisioner": "other"}), "provisioner", "FieldValueInvalid"),
            Refused::new(json!({"parameters": {"type": "slow"}}), "parameters", "FieldValueInvalid"),
            Refused::new(json!({"reclaimPolicy": "Retain"}), "reclaimPolicy", "FieldValueInvalid"),
            Refused::new(
                json!({"volumeBindingMode": "WaitForFirstConsumer"}),
                "volumeBindingMode",
                "FieldValueInvalid",
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn table_row_marks_the_default_class() {
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        let object = json!({"metadata": {"name": "a", "annotations": annotations}, "provisioner": "p"});
        assert_eq!(StorageClass.cells(&object, 0)[..3], ["a (default)", "p", "Delete"]);
    }

    #[test]
    fn deprecated_labels_cause_a_warning() {
        let expression = json!({"key": "failure-domain.beta.kubernetes.io/zone", "values": ["a"]});
        let object = json!({"allowedTopologies": [{"matchLabelExpressions": [expression]}]});
        let expected = "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17; \
                        use \"topology.kubernetes.io/zone\" instead";
        assert_eq!(StorageClass.warnings(&object, None), [expected]);
    }
}
