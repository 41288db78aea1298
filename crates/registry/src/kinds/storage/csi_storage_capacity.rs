//! CSIStorageCapacity: storage of a class that is available in a topology.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::quantity::Quantity;
use serde_json::Value;

use crate::kind::{Column, Declaration, Kind, Scope};
use crate::kinds::rules;
use crate::view;

/// [`Kind`] of CSIStorageCapacity objects.
pub struct CsiStorageCapacity;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    unconditional_update: false,
    // kube-apiserver's storage of this kind does not use any of its printers.
    columns: vec![Column::name(), Column::date("Created At", "creation time of the object")],
    storage_version_hash: "xeVl+2Ly1kE=".into(),
    ..Declaration::new(
        "storage.k8s.io",
        &["v1"],
        "CSIStorageCapacity",
        "csistoragecapacities",
        "csistoragecapacity",
        Scope::Namespaced,
    )
});

impl Kind for CsiStorageCapacity {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        rules::label_selector(&Path::root("nodeTopology"), object.get("nodeTopology"), errors);
        let class = view::text(object, &["storageClassName"]);
        rules::each_message(&Path::root("storageClassName"), class, name::dns1123_subdomain(class), errors);
        let capacity = object.get("capacity").and_then(|value| Quantity::from_json(value).ok());
        if let Some(capacity) = capacity.filter(|capacity| capacity.sign() < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(&Path::root("capacity"), capacity.to_string(), detail));
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        for (field, shape) in [("nodeTopology", "*@meta.LabelSelector"), ("storageClassName", "s")] {
            rules::unchanged(shape, &Path::root(field), new.get(field), old.get(field), errors);
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let expressions = view::items(new, &["nodeTopology", "matchExpressions"]);
        for (index, expression) in expressions.iter().enumerate() {
            let key = view::text(expression, &["key"]);
            if let Some(message) = rules::deprecated_node_label(key) {
                let at = format!("nodeTopology.matchExpressions[{index}].key");
                warnings.push(format!("{at}: {key} is {message}"));
            }
        }
        for (key, _) in view::fields(new, &["nodeTopology", "matchLabels"]) {
            if let Some(message) = rules::deprecated_node_label(key) {
                warnings.push(format!("nodeTopology.matchLabels.{key}: {message}"));
            }
        }
        warnings
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        vec![view::name(object).into(), view::text(object, &["metadata", "creationTimestamp"]).into()]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        use serde_json::json;

        let valid = &self.samples().valid[0];
        vec![crate::samples::Stored::of(
            valid,
            &json!({"nodeTopology": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["no label"]}]}}),
        )]
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{namespaced, with};
    use crate::samples::{Refused, Samples};

    let valid = namespaced(
        "storage.k8s.io/v1",
        "CSIStorageCapacity",
        json!({
            "storageClassName": "fast",
            "nodeTopology": {"matchLabels": {"zone": "a"}},
            "capacity": "10Gi",
            "maximumVolumeSize": "1Gi",
        }),
    );
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let expressions = json!([{"key": "zone", "operator": "In", "values": []}]);
    Samples {
        invalid: vec![
            refused("/storageClassName", Value::Null, "storageClassName", "FieldValueInvalid"),
            refused("/capacity", json!("-1"), "capacity", "FieldValueInvalid"),
            refused(
                "/nodeTopology/matchExpressions",
                expressions,
                "nodeTopology.matchExpressions[0].values",
                "FieldValueRequired",
            ),
        ],
        valid: vec![valid],
        updates: vec![json!({"capacity": "9Gi"}), json!({"capacity": null})],
        invalid_updates: vec![
            Refused::new(json!({"storageClassName": "slow"}), "storageClassName", "FieldValueInvalid"),
            Refused::new(
                json!({"nodeTopology": {"matchLabels": {"zone": "b"}}}),
                "nodeTopology",
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
    fn deprecated_labels_cause_a_warning() {
        let key = "beta.kubernetes.io/os";
        let topology = json!({"matchLabels": {key: "a"}, "matchExpressions": [{"key": key}]});
        let warnings = CsiStorageCapacity.warnings(&json!({"nodeTopology": topology}), None);
        let message = "deprecated since v1.14; use \"kubernetes.io/os\" instead";
        assert_eq!(
            warnings,
            [
                format!("nodeTopology.matchExpressions[0].key: {key} is {message}"),
                format!("nodeTopology.matchLabels.{key}: {message}"),
            ]
        );
    }
}
