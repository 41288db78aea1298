//! PersistentVolumeClaim: a request for storage of some size and class.

mod data_source;
#[cfg(any(test, feature = "samples"))]
mod samples;
mod update;

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::volume_access::CLASS_ANNOTATION;
use super::{label_selector, resource_list, rules, volume_access};
use crate::kind::{Column, Declaration, Kind, Scope, Subresource, texts};
use crate::view;

const STORAGE_REQUEST: &[&str] = &["spec", "resources", "requests", "storage"];

/// [`Kind`] of PersistentVolumeClaim objects.
pub struct PersistentVolumeClaim;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    short_names: texts(&["pvc"]),
    subresources: vec![Subresource::status("PersistentVolumeClaim")],
    deletion_returns_object: true,
    columns: vec![
        Column::name(),
        Column::text("Status", "phase of the claim"),
        Column::text("Volume", "bound volume"),
        Column::text("Capacity", "capacity of the volume"),
        Column::text("Access Modes", "access modes of the volume"),
        Column::text("StorageClass", "storage class"),
        Column::text("VolumeAttributesClass", "requested volume attributes class"),
        Column::age(),
        Column::text("VolumeMode", "volume mode: Filesystem or Block").wide(),
    ],
    storage_version_hash: "QWTyNDq0dC4=".into(),
    ..Declaration::new(
        "",
        &["v1"],
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        "persistentvolumeclaim",
        Scope::Namespaced,
    )
});

impl Kind for PersistentVolumeClaim {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        if view::text(object, &["status", "phase"]).is_empty() {
            object["status"]["phase"] = "Pending".into();
        }
        if let Some(spec) = object.get_mut("spec") {
            set_spec_defaults(spec);
        }
        resource_list::set_defaults(object.pointer_mut("/status/capacity"));
        resource_list::set_defaults(object.pointer_mut("/status/allocatedResources"));
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        // Includes the phase, because defaults are applied whenever an object is read.
        object["status"] = json!({"phase": "Pending"});
        data_source::sync_data_sources(object, None);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        data_source::sync_data_sources(new, Some(old));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let nothing = Value::Null;
        validate_spec(object.get("spec").unwrap_or(&nothing), &Path::root("spec"), errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        update::check_spec_unchanged(new, old, errors);
        update::check_size(new, old, errors);
        let mode = ["spec", "volumeMode"];
        let path = Path::root("volumeMode");
        rules::immutable("*s", view::at(new, &mode), view::at(old, &mode), &path, errors);
        update::check_attributes_class_unchanged(new, old, errors);
    }

    fn validate_status_update(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        if view::items(new, &["spec", "accessModes"]).is_empty() {
            errors.push(FieldError::required(&Path::root("Spec.accessModes"), ""));
        }
        let path = Path::root("status.capacity");
        for (resource, amount) in resource_list::amounts(new, &["status", "capacity"]) {
            resource_list::check_basic(&amount, &path.key(resource), errors);
        }
        update::check_allocated(new, errors);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if view::at(new, &["metadata", "annotations", CLASS_ANNOTATION]).is_some() {
            let message = volume_access::CLASS_ANNOTATION_DEPRECATED;
            warnings.push(format!("metadata.annotations[{CLASS_ANNOTATION}]: {message}"));
        }
        warnings.extend(fraction_warnings(new, &Path::root("spec")));
        warnings
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let volume = view::text(object, &["spec", "volumeName"]);
        let (capacity, modes) = if volume.is_empty() {
            (String::new(), String::new())
        } else {
            let capacity =
                resource_list::amount(object, &["status", "capacity", "storage"]).unwrap_or_default();
            (capacity.to_string(), volume_access::modes_cell(object, &["status", "accessModes"]))
        };
        vec![
            view::name(object).into(),
            volume_access::phase_cell(object).into(),
            volume.into(),
            capacity.into(),
            modes.into(),
            volume_access::class_cell(object).into(),
            volume_access::text_cell_or_unset(object, "volumeAttributesClassName").into(),
            view::age(object, now),
            volume_access::text_cell_or_unset(object, "volumeMode").into(),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples::samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        let valid = &self.samples().valid[0];
        let source = json!({"apiGroup": "No Group", "kind": "A", "name": "a"});
        vec![
            crate::samples::Stored::of(
                valid,
                &json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["no label"]}]}}}),
            ),
            crate::samples::Stored::of(
                valid,
                &json!({"spec": {"dataSource": null, "dataSourceRef": source}}),
            ),
        ]
    }
}

/// Warnings about storage sizes with fractions of a byte; `path` is that of the claim's `spec`.
pub(crate) fn fraction_warnings(claim: &Value, path: &Path<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let resources = path.child("resources");
    for list in ["requests", "limits"] {
        let amount = resource_list::amount(claim, &["spec", "resources", list, "storage"]);
        if let Some(amount) = amount.filter(|amount| amount.milli_value() % 1000 != 0) {
            let path = resources.child(list);
            let path = path.key("storage");
            warnings
                .push(format!("{path}: fractional byte value \"{amount}\" is invalid, must be an integer"));
        }
    }
    warnings
}

/// Sets defaults of a claim's `spec`, in a claim or in a template.
pub(crate) fn set_spec_defaults(spec: &mut Value) {
    view::set_default(spec, "volumeMode", || "Filesystem".into());
    resource_list::set_defaults(spec.pointer_mut("/resources/limits"));
    resource_list::set_defaults(spec.pointer_mut("/resources/requests"));
}

/// Validates a claim's `spec`, in a claim or in a template.
pub(crate) fn validate_spec(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut modes = ErrorList::new();
    volume_access::check_modes(spec, "at least 1 access mode is required", path, &mut modes);
    // Missing modes are reported before the selector, unsupported ones after it.
    let (before, after) = match view::items(spec, &["accessModes"]) {
        [] => (modes, ErrorList::new()),
        _ => (ErrorList::new(), modes),
    };
    errors.extend(before);
    if let Some(selector) = spec.get("selector") {
        label_selector::validate(selector, &path.child("selector"), errors);
    }
    errors.extend(after);
    let resources = path.child("resources");
    let storage_path = resources.key("storage");
    match resource_list::amount(spec, &STORAGE_REQUEST[1..]) {
        None => errors.push(FieldError::required(&storage_path, "")),
        Some(amount) => {
            resource_list::check_positive(&amount, &storage_path, errors);
        }
    }
    volume_access::check_class(spec, "storageClassName", path, errors);
    volume_access::check_volume_mode(spec, path, errors);
    for field in ["dataSource", "dataSourceRef"] {
        if let Some(source) = spec.get(field) {
            data_source::validate(source, &path.child(field), errors);
        }
    }
    data_source::check_agreement(spec, path, errors);
    volume_access::check_class(spec, "volumeAttributesClassName", path, errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_row_of_a_bound_claim_shows_the_volume() {
        let claim = json!({
            "spec": {"volumeName": "v", "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"},
            "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"]},
        });
        let cells = PersistentVolumeClaim.cells(&claim, 0);
        assert_eq!(cells[1..6], ["Bound", "v", "2Gi", "RWO", "fast"].map(Value::from));
        let mut pending = claim;
        pending["spec"]["volumeName"] = "".into();
        assert_eq!(PersistentVolumeClaim.cells(&pending, 0)[2..5], ["", "", ""].map(Value::from));
    }

    #[test]
    fn fractional_byte_size_causes_a_warning() {
        let claim = json!({"spec": {"resources": {"requests": {"storage": "500m"}}}});
        assert_eq!(
            PersistentVolumeClaim.warnings(&claim, None),
            [
                r#"spec.resources.requests[storage]: fractional byte value "500m" is invalid, must be an integer"#
            ]
        );
    }
}
