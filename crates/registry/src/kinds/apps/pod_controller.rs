//! Shared parts of kinds with a pod template: the selector, which must match the template, and table cells of its
//! containers.

use std::borrow::Cow;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::checks::ensure;
use crate::kind::Column;
use crate::kinds::core::{label_selector, pod_spec};
use crate::kinds::rules::{self, same};
use crate::{internal_types, view};

/// Sets the defaults of the template of a spec.
pub fn set_template_defaults(spec: &mut Value) {
    pod_spec::set_template_defaults(ensure(spec, "template"));
}

/// Drops fields of disabled features from the template of a spec.
pub fn drop_disabled_fields(spec: Option<&mut Value>) {
    if let Some(pod) = spec.and_then(|spec| spec.pointer_mut("/template/spec")) {
        pod_spec::drop_disabled_fields(pod);
    }
}

/// The selector of a spec; `Null` if absent.
pub fn selector(spec: &Value) -> &Value {
    spec.get("selector").unwrap_or(&Value::Null)
}

/// The template of a spec; `Null` if absent.
pub fn template(spec: &Value) -> &Value {
    spec.get("template").unwrap_or(&Value::Null)
}

/// Requires a valid, non-empty selector; `noun` is the name of the kind in messages. Returns whether it is usable.
pub fn validate_required_selector(spec: &Value, noun: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let selector = selector(spec);
    let path = path.child("selector");
    if selector.is_null() {
        errors.push(FieldError::required(&path, ""));
        return true;
    }
    let usable = validate_selector(selector, &path, errors);
    validate_not_empty(selector, noun, &path, errors);
    usable
}

/// Validates a selector. Returns whether it is valid.
pub fn validate_selector(selector: &Value, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let before = errors.len();
    if !selector.is_null() {
        label_selector::validate(selector, path, errors);
    }
    errors.len() == before
}

/// Rejects a selector that matches everything.
pub fn validate_not_empty(selector: &Value, noun: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if !selector.is_null() && label_selector::is_empty(selector) {
        let detail = format!("empty selector is invalid for {noun}");
        let found = internal_types::printed("*@meta.LabelSelector", Some(selector));
        errors.push(FieldError::invalid(path, found, detail));
    }
}

/// Rejects a change of the selector.
pub fn validate_selector_stays(new: &Value, old: &Value, errors: &mut ErrorList) {
    let [new, old] = [new, old].map(|object| view::at(object, &["spec", "selector"]));
    rules::unchanged("*@meta.LabelSelector", &Path::root("spec.selector"), new, old, errors);
}

/// Requires a selector that matches the labels of the template.
pub fn validate_selector_fits(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let labels = view::at(spec, &["template", "metadata", "labels"]).unwrap_or(&Value::Null);
    if !label_selector::matches(selector(spec), labels) {
        let path = path.child("template.metadata.labels");
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(&path, internal_types::printed("{s", Some(labels)), detail));
    }
}

/// Validates the template of a kind whose pods run forever; `kind` is its name in messages.
pub fn validate_runs_forever(template: &Value, kind: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let policy = view::text(template, &["spec", "restartPolicy"]);
    if policy != "Always" {
        let path = path.child("spec.restartPolicy");
        errors.push(FieldError::not_supported(&path, BadValue::named(policy), &["Always"]));
    }
    if view::at(template, &["spec", "activeDeadlineSeconds"]).is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden(&path.child("spec.activeDeadlineSeconds"), detail));
    }
}

/// Validates selector and template of a Deployment or ReplicaSet.
pub fn validate_replicated_template(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    // kube-apiserver's message says "deployment" for both kinds.
    if !validate_required_selector(spec, "deployment", path, errors) {
        let found = internal_types::printed("*@meta.LabelSelector", spec.get("selector"));
        errors.push(FieldError::invalid(&path.child("selector"), found, "invalid label selector"));
        return;
    }
    validate_selector_fits(spec, path, errors);
    let template_path = path.child("template");
    pod_spec::validate_template(template(spec), &template_path, errors);
    validate_runs_forever(template(spec), "ReplicaSet", &template_path, errors);
}

/// Warnings about the template; for updates only if the spec has changed.
pub fn template_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some_and(|old| same(new.get("spec"), old.get("spec"))) {
        return Vec::new();
    }
    let spec = new.get("spec").unwrap_or(&Value::Null);
    pod_spec::template_warnings(template(spec), &Path::root("spec.template"))
}

/// Warning about a name that is not valid as part of pod names.
pub fn name_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let messages = name::dns1123_label(view::name(new));
    if old.is_some() || messages.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; \
         a DNS label is recommended: [{}]",
        messages.join(" ")
    )]
}

/// Columns of [`container_cells`].
pub fn container_columns() -> [Column; 2] {
    [
        Column::text("Containers", "the names of the template's containers").wide(),
        Column::text("Images", "the images of the template's containers").wide(),
    ]
}

/// The column of the selector.
pub fn selector_column() -> Column {
    Column::text("Selector", "which pods belong to it").wide()
}

/// Names and images of the template's containers.
pub fn container_cells(template: &Value) -> [Value; 2] {
    let (names, images) = pod_spec::container_cells(template);
    [names.into(), images.into()]
}

/// The selector in text form.
pub fn selector_cell(spec: &Value) -> Value {
    label_selector::to_text(selector(spec)).into()
}

/// A count such as `status.replicas` for field selectors.
pub fn number_field<'a>(object: &Value, path: &[&str]) -> Cow<'a, str> {
    Cow::Owned(view::integer(object, path).unwrap_or(0).to_string())
}

/// A template for samples, with a web server.
#[cfg(any(test, feature = "samples"))]
pub fn sample_template() -> Value {
    serde_json::json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [
                {"name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 80}]},
                {"name": "log", "image": "fluent-bit:3"},
            ],
        },
    })
}

/// A sample with [`sample_template`] and additional fields in its spec.
#[cfg(any(test, feature = "samples"))]
pub fn sample(api_version: &str, kind: &str, extra: Value) -> Value {
    let mut object = serde_json::json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "sample", "namespace": "default", "uid": "8a5c9a02-0000-4000-8000-000000000001"},
        "spec": {"selector": sample_selector(), "template": sample_template()},
    });
    if let (Some(Value::Object(fields)), Value::Object(extra)) = (object.get_mut("spec"), extra) {
        fields.extend(extra);
    }
    object
}

/// A selector that matches [`sample_template`].
#[cfg(any(test, feature = "samples"))]
pub fn sample_selector() -> Value {
    serde_json::json!({"matchLabels": {"app": "web"}})
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors_of(spec: Value) -> String {
        let mut errors = ErrorList::new();
        validate_required_selector(&spec, "deployment", &Path::root("spec"), &mut errors);
        validate_selector_fits(&spec, &Path::root("spec"), &mut errors);
        errors.to_string()
    }

    #[test]
    fn missing_selector_matches_nothing() {
        assert_eq!(
            errors_of(json!({"template": {"metadata": {"labels": {"a": "b"}}}})),
            "[spec.selector: Required value, spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: \
             `selector` does not match template `labels`]"
        );
    }

    #[test]
    fn empty_selector_is_rejected() {
        assert_eq!(
            errors_of(json!({"selector": {}})),
            "spec.selector: Invalid value: {}: empty selector is invalid for deployment"
        );
    }

    #[test]
    fn name_that_is_not_a_label_gives_a_warning() {
        let object = json!({"metadata": {"name": "a.b"}});
        assert_eq!(name_warnings(&object, None).len(), 1);
        assert!(name_warnings(&object, Some(&object)).is_empty());
        assert!(name_warnings(&json!({"metadata": {"name": "ab"}}), None).is_empty());
    }
}
