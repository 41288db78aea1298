//! ReplicaSet: replicas of a pod template.

use std::borrow::Cow;
use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, Path};
use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::checks::{self, count, ensure};
use super::pod_controller;
use crate::kind::{Column, Declaration, Generation, Kind, Scope, Subresource, texts};
use crate::view;

/// [`Kind`] of ReplicaSet objects.
pub struct ReplicaSet;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    short_names: texts(&["rs"]),
    categories: texts(&["all"]),
    subresources: vec![Subresource::scale(), Subresource::status("ReplicaSet")],
    generation: Generation::Spec,
    selectable_fields: texts(&["status.replicas"]),
    columns: columns(),
    storage_version_hash: "P1RzHs8/mWQ=".into(),
    ..Declaration::new("apps", &["v1"], "ReplicaSet", "replicasets", "replicaset", Scope::Namespaced)
});

fn columns() -> Vec<Column> {
    let mut columns = vec![
        Column::name(),
        Column::integer("Desired", "how many pods there should be"),
        Column::integer("Current", "how many pods there are"),
        Column::integer("Ready", "how many pods are ready"),
        Column::age(),
    ];
    columns.extend(pod_controller::container_columns());
    columns.push(pod_controller::selector_column());
    columns
}

impl Kind for ReplicaSet {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        let spec = ensure(object, "spec");
        view::set_default(spec, "replicas", || 1.into());
        pod_controller::set_template_defaults(spec);
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        checks::set(object, "status", json!({"replicas": 0}));
        pod_controller::drop_disabled_fields(object.get_mut("spec"));
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value) {
        pod_controller::drop_disabled_fields(new.get_mut("spec"));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        checks::all_non_negative(spec, &["replicas", "minReadySeconds"], &path, errors);
        pod_controller::validate_replicated_template(spec, &path, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        pod_controller::validate_selector_stays(new, old, errors);
    }

    fn validate_status_update(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        validate_status(new.get("status").unwrap_or(&Value::Null), errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = pod_controller::name_warnings(new, old);
        warnings.extend(pod_controller::template_warnings(new, old));
        warnings
    }

    fn selectable_value<'a>(&self, object: &'a Value, _field: &str) -> Cow<'a, str> {
        pod_controller::number_field(object, &["status", "replicas"])
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let status = object.get("status").unwrap_or(&Value::Null);
        let [names, images] = pod_controller::container_cells(pod_controller::template(spec));
        vec![
            view::name(object).into(),
            count(spec, "replicas").into(),
            count(status, "replicas").into(),
            count(status, "readyReplicas").into(),
            view::age(object, now),
            names,
            images,
            pod_controller::selector_cell(spec),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

fn validate_status(status: &Value, errors: &mut ErrorList) {
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    checks::all_non_negative(status, &counts, &Path::root("status"), errors);
    for field in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        checks::at_most(status, field, "replicas", "cannot be greater than status.replicas", errors);
    }
    let detail = "cannot be greater than readyReplicas";
    checks::at_most(status, "availableReplicas", "readyReplicas", detail, errors);
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::samples::{Refused, Samples};

    let sample = |extra| pod_controller::sample("apps/v1", "ReplicaSet", extra);
    let template = |spec: Value| {
        let mut object = sample(json!({}));
        if let (Value::Object(fields), Value::Object(spec)) = (&mut object["spec"]["template"]["spec"], spec)
        {
            fields.extend(spec);
        }
        object
    };
    Samples {
        valid: vec![sample(json!({"replicas": 2, "minReadySeconds": 1})), sample(json!({"replicas": 0}))],
        invalid: vec![
            Refused::new(sample(json!({"replicas": -1})), "spec.replicas", "FieldValueInvalid"),
            Refused::new(sample(json!({"minReadySeconds": -1})), "spec.minReadySeconds", "FieldValueInvalid"),
            Refused::new(sample(json!({"selector": {}})), "spec.selector", "FieldValueInvalid"),
            Refused::new(
                sample(json!({"selector": {"matchLabels": {"app": "other"}}})),
                "spec.template.metadata.labels",
                "FieldValueInvalid",
            ),
            Refused::new(
                sample(json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}})),
                "spec.selector.matchExpressions[0].operator",
                "FieldValueInvalid",
            ),
            Refused::new(
                template(json!({"restartPolicy": "Never"})),
                "spec.template.spec.restartPolicy",
                "FieldValueNotSupported",
            ),
            Refused::new(
                template(json!({"activeDeadlineSeconds": 5})),
                "spec.template.spec.activeDeadlineSeconds",
                "FieldValueForbidden",
            ),
        ],
        updates: vec![json!({"spec": {"replicas": 0}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"selector": {"matchLabels": {"b": "c"}}}}),
            "spec.selector",
            "FieldValueInvalid",
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_selector_on_replicas_is_supported() {
        let object = json!({"status": {"replicas": 4}});
        assert_eq!(ReplicaSet.selectable_value(&object, "status.replicas"), "4");
        assert_eq!(ReplicaSet.selectable_value(&json!({}), "status.replicas"), "0");
    }
}
