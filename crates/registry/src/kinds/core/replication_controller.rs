//! ReplicationController: keeps a number of pods running; the predecessor of ReplicaSet.

use std::borrow::Cow;
use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::selector::labels::Selector;
use coracle_meta::time::Time;
use serde_json::{Map, Value, json};

use super::pod_spec::defaults::within;
use super::pod_spec::{self, check};
use crate::kind::{Column, Declaration, Generation, Kind, NameRule, Scope, Subresource, texts};
use crate::scale::{ScalePaths, ScaleSelector};
use crate::{internal_types, view};

/// [`Kind`] of ReplicationController objects.
pub struct ReplicationController;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    names: NameRule::LongName,
    short_names: texts(&["rc"]),
    categories: texts(&["all"]),
    subresources: vec![
        Subresource::scale_at(ScalePaths::usual(ScaleSelector::Labels)),
        Subresource::status("ReplicationController"),
    ],
    generation: Generation::Spec,
    orphans_by_default: true,
    selectable_fields: texts(&["status.replicas"]),
    columns: vec![
        Column::name(),
        Column::integer("Desired", "desired number of pods"),
        Column::integer("Current", "current number of pods"),
        Column::integer("Ready", "number of ready pods"),
        Column::age(),
        Column::text("Containers", "names of the containers in the template").wide(),
        Column::text("Images", "images of the containers in the template").wide(),
        Column::text("Selector", "label selector of the pods").wide(),
    ],
    storage_version_hash: "Jond2If31h0=".into(),
    ..Declaration::new(
        "",
        &["v1"],
        "ReplicationController",
        "replicationcontrollers",
        "replicationcontroller",
        Scope::Namespaced,
    )
});

impl Kind for ReplicationController {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        let labels = view::at(object, &["spec", "template", "metadata", "labels"]).cloned();
        let Value::Object(fields) = object else { return };
        let spec = fields.entry("spec").or_insert_with(|| json!({}));
        view::set_default(spec, "replicas", || 1.into());
        if let Some(labels) = labels {
            set_if_empty(spec, "selector", &labels);
            set_if_empty(fields.entry("metadata").or_insert_with(|| json!({})), "labels", &labels);
        }
        if let Some(template) = fields.get_mut("spec").and_then(|spec| spec.get_mut("template")) {
            pod_spec::set_template_defaults(template);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        if let Value::Object(fields) = object {
            // The number is always present, even if there are no pods yet.
            fields.insert("status".to_owned(), json!({"replicas": 0}));
        }
        drop_disabled_fields(object);
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value) {
        drop_disabled_fields(new);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let path = Path::root("spec");
        check::non_negative(spec, "minReadySeconds", &path, errors);
        if view::fields(spec, &["selector"]).next().is_none() {
            errors.push(FieldError::required(&path.child("selector"), ""));
        }
        if spec.get("replicas").is_none() {
            errors.push(FieldError::required(&path.child("replicas"), ""));
        }
        check::non_negative(spec, "replicas", &path, errors);
        match spec.get("template") {
            Some(found) => template(found, spec, &path.child("template"), errors),
            None => errors.push(FieldError::required(&path.child("template"), "")),
        }
    }

    fn validate_status_update(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        status(new.get("status").unwrap_or(&Value::Null), &Path::root("status"), errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let messages = name::dns1123_label(view::name(new));
        if old.is_none() && !messages.is_empty() {
            let messages = messages.join(" ");
            warnings.push(format!("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{messages}]"));
        }
        let is_changed = old.is_none_or(|old| old.get("spec") != new.get("spec"));
        // kube-apiserver warns about the old template instead of the new one.
        let warned = old.unwrap_or(new);
        if let Some(template) = view::at(warned, &["spec", "template"]).filter(|_| is_changed) {
            warnings.extend(pod_spec::template_warnings(template, &Path::root("spec.template")));
        }
        warnings
    }

    fn selectable_value<'a>(&self, object: &'a Value, field: &str) -> Cow<'a, str> {
        match field {
            "status.replicas" => {
                Cow::Owned(view::integer(object, &["status", "replicas"]).unwrap_or(0).to_string())
            }
            _ => Cow::Borrowed(""),
        }
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let number = |path: &[&str]| Value::from(view::integer(object, path).unwrap_or(0));
        let template = view::at(object, &["spec", "template"]).unwrap_or(&Value::Null);
        let (names, images) = pod_spec::container_cells(template);
        vec![
            view::name(object).into(),
            number(&["spec", "replicas"]),
            number(&["status", "replicas"]),
            number(&["status", "readyReplicas"]),
            view::age(object, now),
            names.into(),
            images.into(),
            pod_spec::labels_cell(view::at(object, &["spec", "selector"])).into(),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

fn drop_disabled_fields(object: &mut Value) {
    within(object, "spec", |spec| {
        within(spec, "template", |template| within(template, "spec", pod_spec::drop_disabled_fields));
    });
}

fn set_if_empty(object: &mut Value, field: &str, labels: &Value) {
    if let Value::Object(fields) = object
        && fields.get(field).and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        fields.insert(field.to_owned(), labels.clone());
    }
}

fn template(template: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let empty = Map::new();
    let labels = view::at(template, &["metadata", "labels"]);
    let wanted = view::fields(spec, &["selector"]);
    let selector =
        Selector::from_set(wanted.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())));
    if !selector.matches(labels.and_then(Value::as_object).unwrap_or(&empty)) {
        let found = internal_types::printed("{s", labels);
        let message = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(&path.child("metadata.labels"), found, message));
    }
    pod_spec::validate_template(template, path, errors);
    let policy = view::text(template, &["spec", "restartPolicy"]);
    check::supported(policy, &["Always"], &path.child("spec.restartPolicy"), errors);
    if view::at(template, &["spec", "activeDeadlineSeconds"]).is_some() {
        let message = "activeDeadlineSeconds in ReplicationController is not Supported";
        errors.push(FieldError::forbidden(&path.child("spec.activeDeadlineSeconds"), message));
    }
}

fn status(status: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in
        ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"]
    {
        check::non_negative(status, field, path, errors);
    }
    let number = |field: &str| view::integer(status, &[field]).unwrap_or(0);
    for field in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        if number(field) > number("replicas") {
            let message = "cannot be greater than status.replicas";
            errors.push(FieldError::invalid(&path.child(field), number(field), message));
        }
    }
    let available = number("availableReplicas");
    if available > number("readyReplicas") {
        let message = "cannot be greater than readyReplicas";
        errors.push(FieldError::invalid(&path.child("availableReplicas"), available, message));
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::samples::{Refused, Samples};

    let with = |spec: Value| {
        json!({
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "metadata": {"name": "sample", "namespace": "default"},
            "spec": spec
        })
    };
    let template = |extra: Value| {
        let mut spec = json!({"containers": [{"name": "web", "image": "nginx"}]});
        if let (Value::Object(spec), Value::Object(extra)) = (&mut spec, extra) {
            spec.extend(extra);
        }
        json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})
    };
    let plain = template(json!({}));
    Samples {
        valid: vec![
            with(json!({"replicas": 2, "selector": {"app": "web"}, "template": plain})),
            with(json!({"template": plain})),
        ],
        invalid: vec![
            Refused::new(with(json!({})), "spec.template", "FieldValueRequired"),
            Refused::new(
                with(json!({"replicas": -1, "template": plain})),
                "spec.replicas",
                "FieldValueInvalid",
            ),
            Refused::new(
                with(json!({"minReadySeconds": -1, "template": plain})),
                "spec.minReadySeconds",
                "FieldValueInvalid",
            ),
            Refused::new(
                with(json!({"selector": {"app": "other"}, "template": plain})),
                "spec.template.metadata.labels",
                "FieldValueInvalid",
            ),
            Refused::new(
                with(json!({"template": {"spec": plain["spec"]}})),
                "spec.selector",
                "FieldValueRequired",
            ),
            Refused::new(
                with(json!({"template": template(json!({"restartPolicy": "Never"}))})),
                "spec.template.spec.restartPolicy",
                "FieldValueNotSupported",
            ),
            Refused::new(
                with(json!({"template": template(json!({"activeDeadlineSeconds": 1}))})),
                "spec.template.spec.activeDeadlineSeconds",
                "FieldValueForbidden",
            ),
        ],
        updates: vec![json!({"spec": {"replicas": 0}}), json!({"spec": {"selector": {"app": "web"}}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"selector": {"app": "other"}}}),
            "spec.template.metadata.labels",
            "FieldValueInvalid",
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_selector_default_to_the_template_labels() {
        let mut object = samples().valid.remove(1);
        ReplicationController.set_defaults(&mut object);
        assert_eq!(object["spec"]["selector"], json!({"app": "web"}));
        assert_eq!(object["metadata"]["labels"], json!({"app": "web"}));
        assert_eq!(object["spec"]["replicas"], 1);
    }

    #[test]
    fn inconsistent_counts_are_rejected() {
        let mut errors = ErrorList::new();
        status(
            &json!({"replicas": 1, "readyReplicas": 2, "availableReplicas": 1}),
            &Path::root("status"),
            &mut errors,
        );
        assert_eq!(
            errors.to_string(),
            "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"
        );
    }
}
