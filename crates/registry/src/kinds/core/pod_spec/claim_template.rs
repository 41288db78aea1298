//! Templates of claims that are created together with their pod.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::{annotation, check};
use crate::internal_types;
use crate::kinds::core::{persistent_volume_claim, rules};

/// Validates a claim template.
pub(super) fn validate(template: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_template_metadata(template.get("metadata"), &path.child("metadata"), errors);
    let spec = template.get("spec").unwrap_or(&Value::Null);
    persistent_volume_claim::validate_spec(spec, &path.child("spec"), errors);
}

/// Validates the metadata of a template, of which objects get only the labels and annotations.
pub(crate) fn validate_template_metadata(metadata: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    let metadata = metadata.unwrap_or(&Value::Null);
    annotation::validate_keys(metadata, &path.child("annotations"), errors);
    check::labels(metadata.get("labels"), &path.child("labels"), errors);
    for field in internal_types::versioned_names("meta.ObjectMeta") {
        let is_set = !rules::same(metadata.get(field), None);
        if field != "annotations" && field != "labels" && is_set {
            errors.push(FieldError::forbidden(&path.child(go_name(field)), "cannot be set"));
        }
    }
}

/// Name of an ObjectMeta field in messages: kube-apiserver lowers the first letter of the Go name.
fn go_name(field: &str) -> &str {
    if field == "uid" { "uID" } else { field }
}
