//! IngressClass: names the controller that implements ingresses.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use crate::kind::{Column, Declaration, Generation, Kind, Scope};
use crate::kinds::core::rules;
use crate::view;

const MAX_CONTROLLER_BYTES: usize = 250;

/// Annotation of the default class, which applies to ingresses without a class.
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

/// [`Kind`] of IngressClass objects.
pub struct IngressClass;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    generation: Generation::Spec,
    columns: vec![
        Column::name(),
        Column::text("Controller", "controller that implements the class"),
        Column::text("Parameters", "reference to the parameters of the class"),
        Column::age(),
    ],
    storage_version_hash: "l/iqIbDgFyQ=".into(),
    reports_changes_first: true,
    ..Declaration::new(
        "networking.k8s.io",
        &["v1"],
        "IngressClass",
        "ingressclasses",
        "ingressclass",
        Scope::Cluster,
    )
});

impl Kind for IngressClass {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        if let Some(parameters) = object.pointer_mut("/spec/parameters") {
            view::set_default(parameters, "scope", || "Cluster".into());
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let controller = view::text(object, &["spec", "controller"]);
        let path = Path::root("spec.controller");
        if controller.len() > MAX_CONTROLLER_BYTES {
            errors.push(FieldError::too_long(&path, MAX_CONTROLLER_BYTES));
        }
        check_controller(controller, &path, errors);
        if let Some(parameters) = view::at(object, &["spec", "parameters"]) {
            check_parameters(parameters, &Path::root("spec.parameters"), errors);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let controller = ["spec", "controller"];
        let path = Path::root("spec.controller");
        let text = |class: &Value| Value::from(view::text(class, &controller));
        rules::immutable("s", Some(&text(new)), Some(&text(old)), &path, errors);
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let is_default = view::text(object, &["metadata", "annotations", IS_DEFAULT]) == "true";
        let parameters = view::at(object, &["spec", "parameters"]).map(parameters_cell);
        vec![
            format!("{}{}", view::name(object), if is_default { " (default)" } else { "" }).into(),
            view::text(object, &["spec", "controller"]).into(),
            parameters.unwrap_or_else(|| "<none>".to_owned()).into(),
            view::age(object, now),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// Requires a controller name that is a path below a domain.
fn check_controller(controller: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if controller.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let Some((domain, rest)) =
        controller.split_once('/').filter(|(domain, rest)| !domain.is_empty() && !rest.is_empty())
    else {
        let detail = r#"must be a domain-prefixed path (such as "acme.io/foo")"#;
        errors.push(FieldError::invalid(path, controller, detail));
        return;
    };
    rules::text(domain, name::dns1123_subdomain, path, errors);
    if !rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
        let detail = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
        errors.push(FieldError::invalid(path, rest, detail));
    }
}

fn check_parameters(parameters: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    check_local_reference(parameters, path, errors);
    let namespace = parameters.get("namespace").and_then(Value::as_str);
    let namespace_path = path.child("namespace");
    match view::text(parameters, &["scope"]) {
        "Namespace" => match namespace {
            None => {
                let detail = "`parameters.scope` is set to 'Namespace'";
                errors.push(FieldError::required(&namespace_path, detail));
            }
            Some(namespace) => rules::text(namespace, name::dns1123_label, &namespace_path, errors),
        },
        "Cluster" => {
            if namespace.is_some() {
                let detail = "`parameters.scope` is set to 'Cluster'";
                errors.push(FieldError::forbidden(&namespace_path, detail));
            }
        }
        scope => {
            errors.push(FieldError::not_supported(&path.child("scope"), scope, &["Cluster", "Namespace"]));
        }
    }
}

/// Validates a reference to an object by group, kind and name.
pub(crate) fn check_local_reference(reference: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(group) = reference.get("apiGroup").and_then(Value::as_str) {
        rules::text(group, name::dns1123_subdomain, &path.child("apiGroup"), errors);
    }
    for field in ["kind", "name"] {
        let value = view::text(reference, &[field]);
        rules::required_text(value, name::path_segment_name, &path.child(field), errors);
    }
}

fn parameters_cell(parameters: &Value) -> String {
    let group = parameters.get("apiGroup").and_then(Value::as_str);
    let group = group.map(|group| format!(".{group}")).unwrap_or_default();
    format!("{}{group}/{}", view::text(parameters, &["kind"]), view::text(parameters, &["name"]))
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let with = |spec: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "sample"}, "spec": spec});
    let parameters =
        |parameters: Value| with(json!({"controller": "example.com/c", "parameters": parameters}));
    let (invalid, required) = ("FieldValueInvalid", "FieldValueRequired");
    Samples {
        valid: vec![
            parameters(json!({"apiGroup": "example.com", "kind": "Settings", "name": "a"})),
            parameters(
                json!({"kind": "Settings", "name": "a", "scope": "Namespace", "namespace": "default"}),
            ),
            with(json!({"controller": "example.com/a/b"})),
        ],
        invalid: vec![
            Refused::new(with(json!({})), "spec.controller", required),
            Refused::new(with(json!({"controller": "plain"})), "spec.controller", invalid),
            Refused::new(with(json!({"controller": "example.com/a b"})), "spec.controller", invalid),
            Refused::new(
                with(json!({"controller": format!("example.com/{}", "x".repeat(250))})),
                "spec.controller",
                "FieldValueTooLong",
            ),
            Refused::new(parameters(json!({"name": "a"})), "spec.parameters.kind", required),
            Refused::new(
                parameters(json!({"kind": "A", "name": "a", "scope": "Some"})),
                "spec.parameters.scope",
                "FieldValueNotSupported",
            ),
            Refused::new(
                parameters(json!({"kind": "A", "name": "a", "scope": "Namespace"})),
                "spec.parameters.namespace",
                required,
            ),
            Refused::new(
                parameters(json!({"kind": "A", "name": "a", "namespace": "b"})),
                "spec.parameters.namespace",
                "FieldValueForbidden",
            ),
        ],
        updates: vec![json!({"spec": {"parameters": {"name": "b"}}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"controller": "example.com/d"}}),
            "spec.controller",
            invalid,
        )],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn table_row_marks_the_default_class() {
        let class = json!({"metadata": {"name": "c", "annotations": {IS_DEFAULT: "true"}}, "spec": {"controller": "a/b", "parameters": {"kind": "K", "apiGroup": "g", "name": "n"}}});
        assert_eq!(IngressClass.cells(&class, 0)[..3], [json!("c (default)"), json!("a/b"), json!("K.g/n")]);
    }
}
