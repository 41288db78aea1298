//! What classes of volumes have in common: whose they are, and parameters for it.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use crate::kinds::rules;
use crate::view;

/// The most parameters, as upstream has it.
const MAX_COUNT: usize = 512;

/// The most bytes of all keys and values together, as upstream has it.
pub(super) const MAX_TOTAL_BYTES: usize = 256 * 1024;

/// Whose volumes they are: a qualified name.
pub(super) fn check_provisioner(path: &Path<'_>, provisioner: &str, errors: &mut ErrorList) {
    if rules::required(path, provisioner, errors) {
        let lower = provisioner.to_lowercase();
        rules::each_message(path, &lower, name::qualified_name(&lower), errors);
    }
}

/// The parameters of an object, which only the driver understands.
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

/// How many bytes the keys and values of a map have together.
pub(super) fn total_bytes(object: &Value, path: &[&str]) -> usize {
    view::fields(object, path).map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}
