//! Pod templates and pod specs, shared by all kinds that create pods.

mod affinity;
pub(crate) mod aggregate;
pub(crate) mod annotation;
pub(crate) mod check;
pub(crate) mod claim_template;
pub(crate) mod container;
pub(crate) mod defaults;
mod disabled;
mod env;
mod handler;
mod image;
mod mount;
mod network;
mod overlap;
pub(crate) mod plugin_volume;
mod projected;
pub(crate) mod resources;
mod security;
pub(crate) mod spec;
mod toleration;
mod topology;
mod volume;
mod warnings;
mod windows;

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

pub use affinity::validate_node_selector;
pub use defaults::{set_spec_defaults, set_template_defaults};
pub use disabled::drop_disabled_fields;
pub use toleration::validate_tolerations;
pub use warnings::{spec_warnings, template_warnings};

use crate::view;

/// Validates a pod template.
pub fn validate_template(template: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    let spec = template.get("spec").unwrap_or(&Value::Null);
    // kube-apiserver omits `metadata` from these two paths.
    check::labels(metadata.get("labels"), &path.child("labels"), errors);
    let annotations = path.child("annotations");
    annotation::validate_keys(metadata, &annotations, errors);
    annotation::validate(metadata, spec, &annotations, errors);
    let spec_path = path.child("spec");
    spec::validate(spec, spec::Owner::Template, &spec_path, errors);
    annotation::match_fields(metadata, spec, &spec_path, errors);
    if !view::items(spec, &["ephemeralContainers"]).is_empty() {
        let message = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(&spec_path.child("ephemeralContainers"), message));
    }
}

/// Validates the spec of a pod.
///
/// The metadata is that of the pod: some checks of the spec depend on its name.
/// The spec of a template is validated less strictly, by [`validate_template`].
pub fn validate_spec(spec: &Value, metadata: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    spec::validate(spec, spec::Owner::Pod(metadata), path, errors);
}

/// Formats names and images of a template's containers for table cells.
pub fn container_cells(template: &Value) -> (String, String) {
    let containers = view::items(template, &["spec", "containers"]);
    let join = |field: &str| {
        let texts: Vec<&str> = containers.iter().map(|container| view::text(container, &[field])).collect();
        texts.join(",")
    };
    (join("name"), join("image"))
}

/// Formats labels, or a selector of labels only, for a table cell: `a=b,c=d`.
pub fn labels_cell(labels: Option<&Value>) -> String {
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    let texts: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") }
}

/// Faults that were allowed before there was a rule against them, one per patch of a valid template. Each patch
/// replaces the containers.
#[cfg(any(test, feature = "samples"))]
pub(crate) fn stored_templates() -> Vec<serde_json::Value> {
    use serde_json::json;

    let container = |fields: serde_json::Value| {
        let mut container = json!({"name": "c", "image": "i"});
        if let (serde_json::Value::Object(all), serde_json::Value::Object(fields)) = (&mut container, fields)
        {
            all.extend(fields);
        }
        json!([container])
    };
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["no label"]}]});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let spread = |fields: serde_json::Value| {
        let mut constraint =
            json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
        if let (serde_json::Value::Object(all), serde_json::Value::Object(fields)) = (&mut constraint, fields)
        {
            all.extend(fields);
        }
        json!({"topologySpreadConstraints": [constraint]})
    };
    let token = json!({"serviceAccountToken": {"path": "../up", "expirationSeconds": 3600}});
    let pages = json!({"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}, "requests": {"hugepages-2Mi": "3Mi"}});
    [
        json!({"affinity": {"podAffinity": {required: [{"topologyKey": "zone", "labelSelector": selector}]}}}),
        json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [selector]}}}}),
        spread(json!({"labelSelector": selector})),
        spread(json!({"matchLabelKeys": ["a"]})),
        json!({"containers": container(json!({"resources": pages}))}),
        json!({"volumes": [{"name": "v", "projected": {"sources": [token]}}], "serviceAccountName": "default", "containers": container(json!({}))}),
        json!({"hostNetwork": true, "securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}}),
        json!({"hostUsers": false, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}],
               "containers": container(json!({"volumeDevices": [{"name": "v", "devicePath": "/v"}]}))}),
    ]
    .into_iter()
    .map(|spec| json!({"spec": spec}))
    .collect()
}
