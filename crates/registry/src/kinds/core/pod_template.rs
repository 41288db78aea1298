//! PodTemplate: a pod template that is an object of its own.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, Path};
use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::pod_spec::{self, defaults::within};
use crate::kind::{Column, Declaration, Generation, Kind, Scope};
use crate::view;

/// [`Kind`] of PodTemplate objects.
pub struct PodTemplate;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    generation: Generation::Content,
    deletion_returns_object: true,
    columns: vec![
        Column::name(),
        Column::text("Containers", "names of the containers in the template"),
        Column::text("Images", "images of the containers in the template"),
        Column::text("Pod Labels", "labels of the pods created from the template"),
    ],
    storage_version_hash: "LIXB2x4IFpk=".into(),
    ..Declaration::new("", &["v1"], "PodTemplate", "podtemplates", "podtemplate", Scope::Namespaced)
});

impl Kind for PodTemplate {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        if let Value::Object(fields) = object {
            pod_spec::set_template_defaults(fields.entry("template").or_insert_with(|| json!({})));
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        within(object, "template", |template| within(template, "spec", pod_spec::drop_disabled_fields));
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value) {
        self.prepare_for_create(new, Time(0));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let template = object.get("template").unwrap_or(&Value::Null);
        pod_spec::validate_template(template, &Path::root("template"), errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        match new.get("template") {
            Some(template) if old.and_then(|old| old.get("template")) != Some(template) => {
                pod_spec::template_warnings(template, &Path::root("template"))
            }
            _ => Vec::new(),
        }
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        let template = object.get("template").unwrap_or(&Value::Null);
        let (names, images) = pod_spec::container_cells(template);
        let labels = pod_spec::labels_cell(view::at(template, &["metadata", "labels"]));
        vec![view::name(object).into(), names.into(), images.into(), labels.into()]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::samples::{Refused, Samples};

    let with = |template: Value| {
        json!({
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "sample", "namespace": "default"},
            "template": template
        })
    };
    let containers = json!([{"name": "web", "image": "nginx"}]);
    Samples {
        valid: vec![
            with(json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}})),
            with(json!({"spec": {"hostNetwork": true, "containers": [
                {"name": "web", "image": " nginx ", "ports": [{"containerPort": 80}]}
            ]}})),
        ],
        invalid: vec![
            Refused::new(with(json!({})), "template.spec.containers", "FieldValueRequired"),
            Refused::new(
                with(json!({"metadata": {"labels": {"app": "a b"}}, "spec": {"containers": containers}})),
                "template.labels",
                "FieldValueInvalid",
            ),
            Refused::new(
                with(
                    json!({"spec": {"containers": containers, "ephemeralContainers": [{"name": "debug", "image": "b"}]}}),
                ),
                "template.spec.ephemeralContainers",
                "FieldValueForbidden",
            ),
        ],
        updates: vec![json!({"template": {"metadata": {"labels": {"app": "changed"}}}})],
        invalid_updates: vec![Refused::new(
            json!({"template": {"spec": {"restartPolicy": "x"}}}),
            "template.spec.restartPolicy",
            "FieldValueNotSupported",
        )],
    }
}
