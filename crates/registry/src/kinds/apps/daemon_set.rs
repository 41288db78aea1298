//! DaemonSet: one pod on every eligible node.

use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::object::{Meta, MetaMut};
use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::checks::{self, count, default_text, ensure};
use super::{int_or_percent, pod_controller};
use crate::kind::{Column, Declaration, Generation, Kind, Scope, Subresource, texts};
use crate::kinds::core::pod_spec;
use crate::kinds::rules::same;
use crate::{internal_types, view};

/// Annotation that counts changes of the template. It was a field of an older API version, and clients still see it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// [`Kind`] of DaemonSet objects.
pub struct DaemonSet;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    short_names: texts(&["ds"]),
    categories: texts(&["all"]),
    subresources: vec![Subresource::status("DaemonSet")],
    generation: Generation::Spec,
    columns: columns(),
    storage_version_hash: "dd7pWHUlMKQ=".into(),
    reports_changes_first: true,
    internal_annotation: Some(TEMPLATE_GENERATION),
    ..Declaration::new("apps", &["v1"], "DaemonSet", "daemonsets", "daemonset", Scope::Namespaced)
});

/// Status fields of the table, in order.
const SHOWN_COUNTS: [&str; 5] = [
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
];

fn columns() -> Vec<Column> {
    let mut columns = vec![
        Column::name(),
        Column::integer("Desired", "how many nodes should run its pod"),
        Column::integer("Current", "how many of these nodes run one"),
        Column::integer("Ready", "how many of these nodes run one that is ready"),
        Column::integer("Up-to-date", "how many of these nodes run one of the present template"),
        Column::integer("Available", "how many of these nodes run one that has been ready for long enough"),
        Column::text("Node Selector", "the labels that a node must have"),
        Column::age(),
    ];
    columns.extend(pod_controller::container_columns());
    columns.push(pod_controller::selector_column());
    columns
}

impl Kind for DaemonSet {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        // The creator becomes the manager of this annotation, too.
        set_template_generation(object, template_generation(object));
        let spec = ensure(object, "spec");
        set_strategy_defaults(ensure(spec, "updateStrategy"));
        view::set_default(spec, "revisionHistoryLimit", || 10.into());
        pod_controller::set_template_defaults(spec);
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
        let status = json!({
            "currentNumberScheduled": 0,
            "desiredNumberScheduled": 0,
            "numberMisscheduled": 0,
            "numberReady": 0,
        });
        checks::set(object, "status", status);
        pod_controller::drop_disabled_fields(object.get_mut("spec"));
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        pod_controller::drop_disabled_fields(new.get_mut("spec"));
        let changed = !same(view::at(new, &["spec", "template"]), view::at(old, &["spec", "template"]));
        set_template_generation(new, template_generation(old) + i64::from(changed));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        validate_template(spec, &path, errors);
        checks::non_negative(spec, "minReadySeconds", &path, errors);
        let strategy = spec.get("updateStrategy").unwrap_or(&Value::Null);
        validate_strategy(strategy, &path.child("updateStrategy"), errors);
        checks::non_negative(spec, "revisionHistoryLimit", &path, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        pod_controller::validate_selector_stays(new, old, errors);
    }

    fn validate_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let counts = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        let status = new.get("status").unwrap_or(&Value::Null);
        checks::all_non_negative(status, &counts, &Path::root("status"), errors);
        checks::not_decremented(new, old, "collisionCount", errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        // kube-apiserver compares the template generation instead of the object's generation.
        let template = |object: &Value| view::at(object, &["spec", "template"]).cloned();
        if old.is_some_and(|old| same(template(new).as_ref(), template(old).as_ref())) {
            return Vec::new();
        }
        pod_controller::template_warnings(new, old)
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let status = object.get("status").unwrap_or(&Value::Null);
        let mut cells = vec![view::name(object).into()];
        cells.extend(SHOWN_COUNTS.map(|field| Value::from(count(status, field))));
        let node_selector = view::at(spec, &["template", "spec", "nodeSelector"]);
        cells.push(pod_spec::labels_cell(node_selector).into());
        cells.push(view::age(object, now));
        cells.extend(pod_controller::container_cells(pod_controller::template(spec)));
        cells.push(pod_controller::selector_cell(spec));
        cells
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        let valid = &self.samples().valid[0];
        let selector =
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "no label"]}]});
        vec![crate::samples::Stored::of(valid, &json!({"spec": {"selector": selector}}))]
    }

    #[cfg(any(test, feature = "samples"))]
    fn warned_samples(&self) -> Vec<crate::samples::Warned> {
        let valid = &self.samples().valid[0];
        let template =
            json!({"spec": {"template": {"spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}}}});
        let warned = crate::samples::merged(valid, &template);
        let slower = crate::samples::merged(&warned, &json!({"spec": {"minReadySeconds": 9}}));
        let expected = [
            "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        ];
        vec![
            crate::samples::Warned::updated(valid.clone(), warned.clone(), &expected),
            crate::samples::Warned::updated(warned, slower, &[]),
        ]
    }
}

fn template_generation(object: &Value) -> i64 {
    Meta::of(object).annotation(TEMPLATE_GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    if let Some(mut meta) = MetaMut::of(object) {
        meta.set_annotation(TEMPLATE_GENERATION, &generation.to_string());
    }
}

fn set_strategy_defaults(strategy: &mut Value) {
    default_text(strategy, "type", "RollingUpdate");
    if view::text(strategy, &["type"]) == "RollingUpdate" {
        let rolling_update = ensure(strategy, "rollingUpdate");
        view::set_default(rolling_update, "maxUnavailable", || 1.into());
        view::set_default(rolling_update, "maxSurge", || 0.into());
    } else if let Some(rolling_update) = strategy.get_mut("rollingUpdate").filter(|update| update.is_object())
    {
        // These are not pointers in kube-apiserver's internal type.
        view::set_default(rolling_update, "maxUnavailable", || 0.into());
        view::set_default(rolling_update, "maxSurge", || 0.into());
    }
}

fn validate_template(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let selector = pod_controller::selector(spec);
    let selector_path = path.child("selector");
    if pod_controller::validate_selector(selector, &selector_path, errors) {
        pod_controller::validate_selector_fits(spec, path, errors);
    }
    pod_controller::validate_not_empty(selector, "daemonset", &selector_path, errors);
    let template_path = path.child("template");
    pod_spec::validate_template(pod_controller::template(spec), &template_path, errors);
    pod_controller::validate_runs_forever(
        pod_controller::template(spec),
        "DaemonSet",
        &template_path,
        errors,
    );
}

fn validate_strategy(strategy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let rolling_update = strategy.get("rollingUpdate");
    match (view::text(strategy, &["type"]), rolling_update) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => errors.push(FieldError::required(&path.child("rollingUpdate"), "")),
        ("RollingUpdate", Some(update)) => {
            validate_rolling_update(update, &path.child("rollingUpdate"), errors);
        }
        _ => {
            let found = internal_types::printed("@apps.DaemonSetUpdateStrategy", Some(strategy));
            errors.push(FieldError::not_supported(path, found, &["RollingUpdate", "OnDelete"]));
        }
    }
}

fn validate_rolling_update(rolling_update: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let fields = ["maxUnavailable", "maxSurge"];
    let values = fields.map(|field| rolling_update.get(field).unwrap_or(&Value::Null));
    for (field, value) in fields.into_iter().zip(values) {
        int_or_percent::validate(value, &path.child(field), errors);
    }
    for (field, value) in fields.into_iter().zip(values) {
        int_or_percent::validate_at_most_100_percent(value, &path.child(field), errors);
    }
    match values.map(|value| int_or_percent::number(value) != 0) {
        [true, true] => {
            let found = BadValue::json(values[1]);
            let detail = "may not be set when maxUnavailable is non-zero";
            errors.push(FieldError::invalid(&path.child("maxSurge"), found, detail));
        }
        [false, false] => {
            let detail = "cannot be 0 when maxSurge is 0";
            errors.push(FieldError::required(&path.child("maxUnavailable"), detail));
        }
        [true, false] | [false, true] => {}
    }
}

#[cfg(any(test, feature = "samples"))]
fn sample(extra: Value) -> Value {
    pod_controller::sample("apps/v1", "DaemonSet", extra)
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::samples::{Refused, Samples};

    let rolling =
        |update: Value| sample(json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": update}}));
    Samples {
        valid: vec![
            rolling(json!({"maxUnavailable": "10%"})),
            rolling(json!({"maxUnavailable": 0, "maxSurge": 1})),
            sample(json!({"updateStrategy": {"type": "OnDelete"}, "minReadySeconds": 3})),
        ],
        invalid: vec![
            Refused::new(sample(json!({"selector": {}})), "spec.selector", "FieldValueInvalid"),
            Refused::new(
                json!({"metadata": {"name": "x"}, "spec": {}}),
                "spec.template.metadata.labels",
                "FieldValueInvalid",
            ),
            Refused::new(
                rolling(json!({"maxUnavailable": 1, "maxSurge": 1})),
                "spec.updateStrategy.rollingUpdate.maxSurge",
                "FieldValueInvalid",
            ),
            Refused::new(
                rolling(json!({"maxUnavailable": 0})),
                "spec.updateStrategy.rollingUpdate.maxUnavailable",
                "FieldValueRequired",
            ),
            Refused::new(
                rolling(json!({"maxUnavailable": "101%"})),
                "spec.updateStrategy.rollingUpdate.maxUnavailable",
                "FieldValueInvalid",
            ),
            Refused::new(
                sample(json!({"updateStrategy": {"type": "Never"}})),
                "spec.updateStrategy",
                "FieldValueNotSupported",
            ),
            Refused::new(sample(json!({"minReadySeconds": -1})), "spec.minReadySeconds", "FieldValueInvalid"),
        ],
        updates: vec![json!({"spec": {"minReadySeconds": 1}})],
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
    fn template_generation_counts_template_changes() {
        let mut old = sample(json!({}));
        DaemonSet.prepare_for_create(&mut old, Time(0));
        assert_eq!(template_generation(&old), 1);

        let mut new = old.clone();
        new["spec"]["minReadySeconds"] = json!(4);
        new["metadata"]["annotations"] = json!({TEMPLATE_GENERATION: "7", "mine": "x"});
        DaemonSet.prepare_for_update(&mut new, &old);
        assert_eq!(template_generation(&new), 1);
        assert_eq!(new["metadata"]["annotations"]["mine"], "x");

        new["spec"]["template"]["metadata"]["labels"]["b"] = json!("c");
        DaemonSet.prepare_for_update(&mut new, &old);
        assert_eq!(template_generation(&new), 2);
    }

    #[test]
    fn table_shows_the_node_selector() {
        let mut object = sample(json!({}));
        assert_eq!(DaemonSet.cells(&object, 0)[6], "<none>");
        object["spec"]["template"]["spec"]["nodeSelector"] = json!({"b": "2", "a": "1"});
        assert_eq!(DaemonSet.cells(&object, 0)[6], "a=1,b=2");
    }
}
