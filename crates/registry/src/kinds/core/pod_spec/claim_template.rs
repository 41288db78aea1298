//! Claims that are made together with their pod.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::{annotation, check};
use crate::kinds::core::persistent_volume_claim;
use crate::view;

/// Whether a template of a claim may be as it is.
pub(super) fn validate(template: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    metadata(template, &path.child("metadata"), errors);
    let spec = template.get("spec").unwrap_or(&Value::Null);
    persistent_volume_claim::validate_spec(spec, &path.child("spec"), errors);
}

/// Only labels and annotations are carried over to the claim.
fn metadata(template: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    annotation::validate_keys(metadata, &path.child("annotations"), errors);
    check::labels(metadata.get("labels"), &path.child("labels"), errors);
    for (field, value) in view::fields(metadata, &[]) {
        if field != "annotations" && field != "labels" && *value != "" {
            errors.push(FieldError::forbidden(&path.child(field), "cannot be set"));
        }
    }
}
