//! Provisioner and parameters of the classes of volumes.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use crate::kinds::rules;
use crate::view;

/// Maximum number of parameters, as in kube-apiserver.
const MAX_COUNT: usize = 512;

/// Maximum size of all keys and values together in bytes, as in kube-apiserver.
pub(super) const MAX_TOTAL_BYTES: usize = 256 * 1024;

/// Validates a provisioner, which is a qualified name.
pub(super) fn check_provisioner(path: &Path<'_>, provisioner: &str, errors: &mut ErrorList) {
    if rules::required(path, provisioner, errors) {
        let lower = provisioner.to_lowercase();
        rules::each_message(path, &lower, name::qualified_name(&lower), errors);
    }
}

/// Validates the parameters of an object, which only the driver interprets.
pub(super) fn check_parameters(object: &Value, errors: &mut ErrorList) {
    let path = Path::root("parameters");
    if view::fields(object, &["parameters"]).count() > MAX_COUNT {
        errors.push(FieldError::too_long(&path, MAX_COUNT));
        return;
    }
    for (key, _) in view::fields(object, &["parameters"]) {
        if key.is_empty() {
            errors.push(FieldError::invalid(&path, "", "field can not be empty."));
        }
    }
    if total_bytes(object, &["parameters"]) > MAX_TOTAL_BYTES {
        errors.push(FieldError::too_long(&path, MAX_TOTAL_BYTES));
    }
}

/// Total size of the keys and values of a map in bytes.
pub(super) fn total_bytes(object: &Value, path: &[&str]) -> usize {
    view::fields(object, path).map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}
