//! What kinds that make pods from a template have in common: a selector that must fit the
//! template, and the cells that show its containers.

use std::borrow::Cow;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::checks::ensure;
use crate::kind::Column;
use crate::kinds::core::{label_selector, pod_spec};
use crate::kinds::rules::{self, same};
use crate::{internal_types, view};

/// Fills in the template of a spec.
pub fn set_template_defaults(spec: &mut Value) {
    pod_spec::set_template_defaults(ensure(spec, "template"));
}

/// Drops from the template of a spec what belongs to features that are off.
pub fn drop_disabled_fields(spec: Option<&mut Value>) {
    if let Some(pod) = spec.and_then(|spec| spec.pointer_mut("/template/spec")) {
        pod_spec::drop_disabled_fields(pod);
    }
}

/// The selector of a spec, `Null` where there is none.
pub fn selector(spec: &Value) -> &Value {
    spec.get("selector").unwrap_or(&Value::Null)
}

/// The template of a spec, `Null` where there is none.
pub fn template(spec: &Value) -> &Value {
    spec.get("template").unwrap_or(&Value::Null)
}

/// Whether the selector is there, well formed and not empty; `noun` is what the message
/// calls the kind. The answer is whether it can be used.
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

/// Whether a selector is well formed.
pub fn validate_selector(selector: &Value, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let before = errors.len();
    if !selector.is_null() {
        label_selector::validate(selector, path, errors);
    }
    errors.len() == before
}

/// Whether a selector does not fit everything.
pub fn validate_not_empty(selector: &Value, noun: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if !selector.is_null() && label_selector::is_empty(selector) {
        let detail = format!("empty selector is invalid for {noun}");
        let found = internal_types::printed("*@meta.LabelSelector", Some(selector));
        errors.push(FieldError::invalid(path, found, detail));
    }
}

/// A selector must stay as it is.
pub fn validate_selector_stays(new: &Value, old: &Value, errors: &mut ErrorList) {
    let [new, old] = [new, old].map(|object| view::at(object, &["spec", "selector"]));
    rules::unchanged("*@meta.LabelSelector", &Path::root("spec.selector"), new, old, errors);
}

/// Whether the selector fits the pods that the template makes.
pub fn validate_selector_fits(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let labels = view::at(spec, &["template", "metadata", "labels"]).unwrap_or(&Value::Null);
    if !label_selector::matches(selector(spec), labels) {
        let path = path.child("template.metadata.labels");
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(&path, internal_types::printed("{s", Some(labels)), detail));
    }
}

/// The rules of templates whose pods are to run forever; `kind` is what the message calls it.
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

/// The selector and template of a Deployment or ReplicaSet.
pub fn validate_replicated_template(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    // Upstream says "deployment" for both kinds.
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

/// Warnings about the template, on updates only when the spec changes.
pub fn template_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some_and(|old| same(new.get("spec"), old.get("spec"))) {
        return Vec::new();
    }
    let spec = new.get("spec").unwrap_or(&Value::Null);
    pod_spec::template_warnings(template(spec), &Path::root("spec.template"))
}

/// The warning about a name from which no good pod names can be made.
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

/// The columns for what [`container_cells`] gives.
pub fn container_columns() -> [Column; 2] {
    [
        Column::text("Containers", "the names of the template's containers").wide(),
        Column::text("Images", "the images of the template's containers").wide(),
    ]
}

/// The column for a selector.
pub fn selector_column() -> Column {
    Column::text("Selector", "which pods belong to it").wide()
}

/// The names and the images of the template's containers.
pub fn container_cells(template: &Value) -> [Value; 2] {
    let (names, images) = pod_spec::container_cells(template);
    [names.into(), images.into()]
}

/// The selector as text.
pub fn selector_cell(spec: &Value) -> Value {
    label_selector::to_text(selector(spec)).into()
}

/// The value of `status.replicas`, as field selectors see it.
pub fn number_field<'a>(object: &Value, path: &[&str]) -> Cow<'a, str> {
    Cow::Owned(view::integer(object, path).unwrap_or(0).to_string())
}

/// A template that runs a web server, for samples.
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

/// An object with [`sample_template`] and these further fields in its spec.
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

/// A selector that fits [`sample_template`].
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
    fn a_missing_selector_fits_nothing() {
        assert_eq!(
            errors_of(json!({"template": {"metadata": {"labels": {"a": "b"}}}})),
            "[spec.selector: Required value, spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: \
             `selector` does not match template `labels`]"
        );
    }

    #[test]
    fn an_empty_selector_is_refused_although_it_fits() {
        assert_eq!(
            errors_of(json!({"selector": {}})),
            "spec.selector: Invalid value: {}: empty selector is invalid for deployment"
        );
    }

    #[test]
    fn names_that_are_no_label_are_warned_about() {
        let object = json!({"metadata": {"name": "a.b"}});
        assert_eq!(name_warnings(&object, None).len(), 1);
        assert!(name_warnings(&object, Some(&object)).is_empty());
        assert!(name_warnings(&json!({"metadata": {"name": "ab"}}), None).is_empty());
    }
}
