//! Deployment: replicated pods with rolling updates.

use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::checks::{self, count, default_text, ensure};
use super::{int_or_percent, pod_controller};
use crate::kind::{Column, Declaration, Generation, Kind, Scope, StatusMetadata, Subresource, texts};
use crate::{internal_types, view};

/// [`Kind`] of Deployment objects.
pub struct Deployment;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    short_names: texts(&["deploy"]),
    categories: texts(&["all"]),
    subresources: vec![Subresource::scale(), Subresource::status("Deployment")],
    status_metadata: StatusMetadata::WrittenBut(&["labels"]),
    generation: Generation::SpecAndAnnotations,
    columns: columns(),
    storage_version_hash: "8aSe+NMegvE=".into(),
    ..Declaration::new("apps", &["v1"], "Deployment", "deployments", "deployment", Scope::Namespaced)
});

fn columns() -> Vec<Column> {
    let mut columns = vec![
        Column::name(),
        Column::text("Ready", "how many of the wanted pods are ready"),
        Column::text("Up-to-date", "how many pods are made from the present template"),
        Column::text("Available", "how many pods have been ready for long enough"),
        Column::age(),
    ];
    columns.extend(pod_controller::container_columns());
    columns.push(pod_controller::selector_column());
    columns
}

impl Kind for Deployment {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        let spec = ensure(object, "spec");
        view::set_default(spec, "replicas", || 1.into());
        set_strategy_defaults(ensure(spec, "strategy"));
        view::set_default(spec, "revisionHistoryLimit", || 10.into());
        view::set_default(spec, "progressDeadlineSeconds", || 600.into());
        pod_controller::set_template_defaults(spec);
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        checks::set(object, "status", json!({}));
        pod_controller::drop_disabled_fields(object.get_mut("spec"));
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value) {
        pod_controller::drop_disabled_fields(new.get_mut("spec"));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        checks::non_negative(spec, "replicas", &path, errors);
        pod_controller::validate_replicated_template(spec, &path, errors);
        validate_strategy(spec.get("strategy").unwrap_or(&Value::Null), &path.child("strategy"), errors);
        checks::all_non_negative(spec, &["minReadySeconds", "revisionHistoryLimit"], &path, errors);
        validate_progress_deadline(spec, &path, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        pod_controller::validate_selector_stays(new, old, errors);
    }

    fn validate_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        validate_status(new.get("status").unwrap_or(&Value::Null), errors);
        checks::not_decremented(new, old, "collisionCount", errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = pod_controller::name_warnings(new, old);
        warnings.extend(pod_controller::template_warnings(new, old));
        warnings
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let status = object.get("status").unwrap_or(&Value::Null);
        let [names, images] = pod_controller::container_cells(pod_controller::template(spec));
        vec![
            view::name(object).into(),
            format!("{}/{}", count(status, "readyReplicas"), count(spec, "replicas")).into(),
            count(status, "updatedReplicas").into(),
            count(status, "availableReplicas").into(),
            view::age(object, now),
            names,
            images,
            selector_cell(spec),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        let valid = &self.samples().valid[0];
        crate::kinds::core::pod_spec::stored_templates()
            .iter()
            .map(|template| crate::samples::Stored::of(valid, &json!({"spec": {"template": template}})))
            .collect()
    }

    #[cfg(any(test, feature = "samples"))]
    fn warned_samples(&self) -> Vec<crate::samples::Warned> {
        let valid = &self.samples().valid[0];
        let template =
            json!({"spec": {"template": {"spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}}}});
        let warned = &crate::samples::merged(valid, &template);
        let scaled = crate::samples::merged(warned, &json!({"spec": {"replicas": 9}}));
        let labelled = crate::samples::merged(warned, &json!({"metadata": {"labels": {"a": "b"}}}));
        let expected = [
            "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        ];
        vec![
            crate::samples::Warned::created(warned.clone(), &expected),
            crate::samples::Warned::updated(warned.clone(), scaled, &expected),
            crate::samples::Warned::updated(warned.clone(), labelled, &[]),
        ]
    }
}

/// Table cell of the selector, whose text for an empty selector differs from other kinds.
fn selector_cell(spec: &Value) -> Value {
    match pod_controller::selector_cell(spec).as_str() {
        Some("<none>") => "".into(),
        Some("<error>") => "<invalid>".into(),
        text => text.into(),
    }
}

fn set_strategy_defaults(strategy: &mut Value) {
    default_text(strategy, "type", "RollingUpdate");
    if view::text(strategy, &["type"]) == "RollingUpdate" {
        let rolling_update = ensure(strategy, "rollingUpdate");
        view::set_default(rolling_update, "maxUnavailable", || json!("25%"));
        view::set_default(rolling_update, "maxSurge", || json!("25%"));
    }
}

fn validate_strategy(strategy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let rolling_update = strategy.get("rollingUpdate");
    match (view::text(strategy, &["type"]), rolling_update) {
        ("Recreate", None) => {}
        ("Recreate", Some(_)) => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(FieldError::forbidden(&path.child("rollingUpdate"), detail));
        }
        ("RollingUpdate", rolling_update) => {
            let rolling_update = rolling_update.unwrap_or(&Value::Null);
            validate_rolling_update(rolling_update, &path.child("rollingUpdate"), errors);
        }
        _ => {
            let found = internal_types::printed("@apps.DeploymentStrategy", Some(strategy));
            errors.push(FieldError::not_supported(path, found, &["Recreate", "RollingUpdate"]));
        }
    }
}

fn validate_rolling_update(rolling_update: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let [unavailable, surge] =
        ["maxUnavailable", "maxSurge"].map(|field| rolling_update.get(field).unwrap_or(&Value::Null));
    let unavailable_path = path.child("maxUnavailable");
    int_or_percent::validate(unavailable, &unavailable_path, errors);
    int_or_percent::validate(surge, &path.child("maxSurge"), errors);
    if int_or_percent::number(unavailable) == 0 && int_or_percent::number(surge) == 0 {
        let found = BadValue::json(unavailable);
        let detail = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(&unavailable_path, found, detail));
    }
    int_or_percent::validate_at_most_100_percent(unavailable, &unavailable_path, errors);
}

fn validate_progress_deadline(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    checks::non_negative(spec, "progressDeadlineSeconds", path, errors);
    let Some(deadline) = view::integer(spec, &["progressDeadlineSeconds"]) else { return };
    if deadline <= count(spec, "minReadySeconds") {
        let path = path.child("progressDeadlineSeconds");
        errors.push(FieldError::invalid(&path, deadline, "must be greater than minReadySeconds"));
    }
}

fn validate_status(status: &Value, errors: &mut ErrorList) {
    let counts = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    checks::all_non_negative(status, &counts, &Path::root("status"), errors);
    for field in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
        checks::at_most(status, field, "replicas", "cannot be greater than status.replicas", errors);
    }
    let detail = "cannot be greater than readyReplicas";
    checks::at_most(status, "availableReplicas", "readyReplicas", detail, errors);
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::samples::{Refused, Samples};

    let strategy = |strategy: Value| sample(json!({"strategy": strategy}));
    let rolling = |update: Value| strategy(json!({"type": "RollingUpdate", "rollingUpdate": update}));
    Samples {
        valid: vec![
            sample(json!({"replicas": 3, "minReadySeconds": 5, "paused": true})),
            strategy(json!({"type": "Recreate"})),
            rolling(json!({"maxUnavailable": 0, "maxSurge": "150%"})),
        ],
        invalid: vec![
            Refused::new(sample(json!({"replicas": -1})), "spec.replicas", "FieldValueInvalid"),
            Refused::new(sample(json!({"selector": {}})), "spec.selector", "FieldValueInvalid"),
            Refused::new(
                json!({"metadata": {"name": "x"}, "spec": {}}),
                "spec.selector",
                "FieldValueRequired",
            ),
            Refused::new(
                sample(json!({"selector": {"matchLabels": {"app": "other"}}})),
                "spec.template.metadata.labels",
                "FieldValueInvalid",
            ),
            Refused::new(strategy(json!({"type": "Slow"})), "spec.strategy", "FieldValueNotSupported"),
            Refused::new(
                strategy(json!({"type": "Recreate", "rollingUpdate": {}})),
                "spec.strategy.rollingUpdate",
                "FieldValueForbidden",
            ),
            Refused::new(
                rolling(json!({"maxUnavailable": 0, "maxSurge": "0%"})),
                "spec.strategy.rollingUpdate.maxUnavailable",
                "FieldValueInvalid",
            ),
            Refused::new(
                rolling(json!({"maxSurge": "lots"})),
                "spec.strategy.rollingUpdate.maxSurge",
                "FieldValueInvalid",
            ),
            Refused::new(
                sample(json!({"progressDeadlineSeconds": 5, "minReadySeconds": 5})),
                "spec.progressDeadlineSeconds",
                "FieldValueInvalid",
            ),
        ],
        updates: vec![
            json!({"spec": {"replicas": 5}}),
            json!({"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}}),
        ],
        invalid_updates: vec![
            Refused::new(
                json!({"spec": {"selector": {"matchLabels": {"other": "x"}}}}),
                "spec.selector",
                "FieldValueInvalid",
            ),
            Refused::new(json!({"spec": {"replicas": -5}}), "spec.replicas", "FieldValueInvalid"),
        ],
    }
}

/// A Deployment with additional fields in its spec.
#[cfg(any(test, feature = "samples"))]
fn sample(extra: Value) -> Value {
    pod_controller::sample("apps/v1", "Deployment", extra)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::errors_on_create;

    #[test]
    fn defaults_equal_those_of_kube_apiserver() {
        let mut object = sample(json!({"strategy": {}}));
        Deployment.set_defaults(&mut object);
        let spec = &object["spec"];
        assert_eq!(
            spec["strategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})
        );
        let numbers = ["replicas", "revisionHistoryLimit", "progressDeadlineSeconds"];
        assert_eq!(numbers.map(|field| count(spec, field)), [1, 10, 600]);
    }

    #[test]
    fn unknown_strategy_is_printed_as_in_kube_apiserver() {
        let errors = errors_on_create(&Deployment, &sample(json!({"strategy": {"type": "Slow"}})));
        assert_eq!(
            errors.to_string(),
            "spec.strategy: Unsupported value: {\"Type\":\"Slow\",\"RollingUpdate\":null}: supported values: \
             \"Recreate\", \"RollingUpdate\""
        );
    }

    #[test]
    fn ready_replicas_cannot_exceed_replicas() {
        let mut errors = ErrorList::new();
        let new = json!({"status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}});
        Deployment.validate_status_update(&new, &json!({}), &mut errors);
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["status.readyReplicas", "status.availableReplicas", "status.availableReplicas"]);
    }

    #[test]
    fn table_shows_progress() {
        let mut object = sample(json!({"replicas": 3}));
        object["status"] = json!({"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1});
        let cells = Deployment.cells(&object, 0);
        assert_eq!(cells[1..4], [json!("1/3"), json!(2), json!(1)]);
        assert_eq!(cells[5..], [json!("web,log"), json!("nginx:1.27,fluent-bit:3"), json!("app=web")]);
    }
}
