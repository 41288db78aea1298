//! Validation of updates of a claim.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::{Map, Value};

use super::STORAGE_REQUEST;
use crate::kinds::core::unified_diff::unified_diff;
use crate::kinds::core::volume_access::CLASS_ANNOTATION;
use crate::kinds::core::{resource_list, rules};
use crate::{internal_types, view};

const RESIZE_STATUSES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Rejects changes of the spec, except that volume and class may be set once, and that size and attributes class of a
/// bound claim may change.
pub(super) fn check_spec_unchanged(new: &Value, old: &Value, errors: &mut ErrorList) {
    let part = |object: &Value| object.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    let (mut spec, mut before) = (part(new), part(old));
    if view::text(old, &["spec", "volumeName"]).is_empty() {
        copy(&mut before, &spec, "volumeName");
    }
    if may_set_class(new, old, errors) {
        spec.remove("storageClassName");
    }
    if view::text(new, &["status", "phase"]) == "Bound" {
        copy(&mut spec, &before, "volumeAttributesClassName");
        copy_storage_request(&mut spec, view::at(old, STORAGE_REQUEST));
    }
    if spec != before {
        let [before, spec] = [before, spec].map(|spec| {
            internal_types::indented("@core.PersistentVolumeClaimSpec", Some(&Value::Object(spec)))
        });
        let difference = unified_diff(&before, &spec);
        let detail = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{difference}"
        );
        errors.push(FieldError::forbidden(&Path::root("spec"), detail));
    }
}

fn copy(to: &mut Map<String, Value>, from: &Map<String, Value>, field: &str) {
    match from.get(field) {
        Some(value) => drop(to.insert(field.to_owned(), value.clone())),
        None => drop(to.remove(field)),
    }
}

/// Returns true if a claim without a class gets one. The annotation that preceded the field may be removed if the
/// field takes over its value, and is immutable otherwise.
fn may_set_class(new: &Value, old: &Value, errors: &mut ErrorList) -> bool {
    fn annotation(object: &Value) -> Option<&str> {
        view::at(object, &["metadata", "annotations", CLASS_ANNOTATION]).and_then(Value::as_str)
    }
    let class = |object| view::at(object, &["spec", "storageClassName"]).and_then(Value::as_str);
    let (annotated, before) = (annotation(new), annotation(old));
    let is_new = class(old).is_none() && class(new).is_some();
    let takes_over = is_new && before == class(new);
    let may_go = takes_over && annotated.is_none();
    if annotated != before && !may_go {
        let path = Path::root("metadata.annotations");
        let value = annotated.unwrap_or_default();
        errors.push(FieldError::invalid(&path.child(CLASS_ANNOTATION), value, rules::IMMUTABLE));
    }
    is_new && (before.is_none() || takes_over)
}

fn copy_storage_request(spec: &mut Map<String, Value>, storage: Option<&Value>) {
    let requests = spec.get_mut("resources").and_then(|resources| resources.get_mut("requests"));
    if let (Some(Value::Object(requests)), Some(storage)) = (requests, storage) {
        requests.insert("storage".to_owned(), storage.clone());
    }
}

/// Allows a smaller size only while it is larger than the capacity of the volume.
pub(super) fn check_size(new: &Value, old: &Value, errors: &mut ErrorList) {
    let size = |object: &Value, path: &[&str]| resource_list::amount(object, path).unwrap_or_default();
    let wanted = size(new, STORAGE_REQUEST);
    if wanted < size(old, STORAGE_REQUEST) && wanted <= size(old, &["status", "capacity", "storage"]) {
        let path = Path::root("spec.resources.requests.storage");
        errors.push(FieldError::forbidden(&path, "field can not be less than status.capacity"));
    }
}

pub(super) fn check_attributes_class_unchanged(new: &Value, old: &Value, errors: &mut ErrorList) {
    let class = |object: &Value| view::at(object, &["spec", "volumeAttributesClassName"]).cloned();
    if class(new) == class(old) || view::at(old, &["status", "currentVolumeAttributesClassName"]).is_none() {
        return;
    }
    let what = match class(new) {
        None => "nil",
        Some(class) if class == "" => "empty string",
        Some(_) => return,
    };
    let detail =
        format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.push(FieldError::forbidden(&Path::root("spec.volumeAttributesClassName"), detail));
}

pub(super) fn check_allocated(object: &Value, errors: &mut ErrorList) {
    let path = Path::root("status.allocatedResourceStatuses");
    for (resource, status) in view::fields(object, &["status", "allocatedResourceStatuses"]) {
        check_resource_key(resource, &path, errors);
        if !RESIZE_STATUSES.iter().any(|known| status == known) {
            errors.push(FieldError::not_supported(&path, BadValue::named(resource), RESIZE_STATUSES));
        }
    }
    let path = Path::root("status.allocatedResources");
    for (resource, amount) in resource_list::amounts(object, &["status", "allocatedResources"]) {
        if check_resource_key(resource, &path, errors)
            && resource_list::check_basic(&amount, &path.key(resource), errors)
        {
            resource_list::check_amount("storage", &amount, &path.key(resource), errors);
        }
    }
}

/// Validates the name of a claim's resource. Returns true if it is valid.
fn check_resource_key(resource: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let before = errors.len();
    rules::text(resource, name::qualified_name, path, errors);
    if errors.len() == before && resource_list::is_native(resource) && resource != "storage" {
        errors.push(FieldError::not_supported(path, resource, &["storage"]));
    }
    errors.len() == before
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::PersistentVolumeClaim;
    use super::*;
    use crate::kind::Kind;

    fn claim(spec: Value, status: Value) -> Value {
        json!({"spec": spec, "status": status})
    }

    fn validation_errors(new: &Value, old: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        PersistentVolumeClaim.validate_update(new, old, &mut errors);
        errors.iter().map(|error| error.field.clone()).collect()
    }

    fn sized(size: &str, phase: &str) -> Value {
        let status = json!({"phase": phase, "capacity": {"storage": "2Gi"}});
        claim(json!({"resources": {"requests": {"storage": size}}}), status)
    }

    #[test]
    fn bound_claim_may_not_shrink_to_its_capacity() {
        assert!(validation_errors(&sized("5Gi", "Bound"), &sized("4Gi", "Bound")).is_empty());
        assert!(validation_errors(&sized("3Gi", "Bound"), &sized("4Gi", "Bound")).is_empty());
        assert_eq!(
            validation_errors(&sized("2Gi", "Bound"), &sized("4Gi", "Bound")),
            ["spec.resources.requests.storage"]
        );
        assert_eq!(validation_errors(&sized("5Gi", "Pending"), &sized("4Gi", "Pending")), ["spec"]);
    }

    #[test]
    fn immutable_spec_error_contains_a_diff() {
        let mut errors = ErrorList::new();
        PersistentVolumeClaim.validate_update(
            &sized("5Gi", "Pending"),
            &sized("4Gi", "Pending"),
            &mut errors,
        );
        assert_eq!(
            errors.to_string(),
            "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n@@ -4,7 +4,7 @@\n  \"Resources\": {\n   \"Limits\": null,\n   \"Requests\": {\n-   \"storage\": \"4Gi\"\n+   \"storage\": \"5Gi\"\n   }\n  },\n  \"VolumeName\": \"\",\n"
        );
    }

    #[test]
    fn storage_class_can_be_set_once() {
        let none = claim(json!({}), json!({}));
        let fast = claim(json!({"storageClassName": "fast"}), json!({}));
        let slow = claim(json!({"storageClassName": "slow"}), json!({}));
        assert!(validation_errors(&fast, &none).is_empty());
        assert_eq!(validation_errors(&slow, &fast), ["spec"]);
        let mut annotated = none;
        annotated["metadata"]["annotations"][CLASS_ANNOTATION] = "fast".into();
        assert!(validation_errors(&fast, &annotated).is_empty(), "the field takes over from the annotation");
        assert_eq!(validation_errors(&slow, &annotated).len(), 2);
    }

    #[test]
    fn applied_attributes_class_cannot_be_removed() {
        let status = json!({"phase": "Bound", "currentVolumeAttributesClassName": "gold"});
        let gold = claim(json!({"volumeAttributesClassName": "gold"}), status.clone());
        let silver = claim(json!({"volumeAttributesClassName": "silver"}), status.clone());
        assert!(validation_errors(&silver, &gold).is_empty());
        assert_eq!(validation_errors(&claim(json!({}), status), &gold), ["spec.volumeAttributesClassName"]);
    }

    #[test]
    fn allocated_resource_other_than_storage_is_rejected() {
        let status =
            json!({"allocatedResources": {"cpu": "1"}, "allocatedResourceStatuses": {"storage": "Some"}});
        let claim = claim(json!({"accessModes": ["ReadWriteOnce"]}), status);
        let mut errors = ErrorList::new();
        PersistentVolumeClaim.validate_status_update(&claim, &claim, &mut errors);
        let fields: Vec<_> = errors.iter().map(|error| error.field.clone()).collect();
        assert_eq!(fields, ["status.allocatedResourceStatuses", "status.allocatedResources"]);
    }
}
