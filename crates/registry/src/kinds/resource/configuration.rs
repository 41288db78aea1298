//! Selectors and configuration of devices.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::device_selector;
use super::lists::check_list;
use crate::kinds::ratchet;
use crate::kinds::storage::driver_name;
use crate::view;

/// Maximum number of selectors, as in kube-apiserver.
const MAX_SELECTORS: usize = 32;

/// Maximum size of parameters in bytes, as in kube-apiserver.
pub(super) const MAX_PARAMETERS_BYTES: usize = 10 * 1024;

/// Maximum number of configurations, as in kube-apiserver.
pub(super) const MAX_CONFIGURATIONS: usize = 32;

/// Validates selectors, all of which a device must match.
pub(super) fn check_selectors(selectors: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    check_list(selectors, MAX_SELECTORS, path, errors, |selector, path, errors| {
        let path = path.child("cel");
        let Some(cel) = selector.get("cel") else {
            errors.push(FieldError::required(&path, ""));
            return;
        };
        device_selector::check(view::text(cel, &["expression"]), &path.child("expression"), errors);
    });
}

/// Validates opaque configuration, which only the driver interprets.
pub(super) fn check_configuration(config: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("opaque");
    let Some(opaque) = config.get("opaque") else {
        errors.push(FieldError::required(&path, ""));
        return;
    };
    driver_name(&path.child("driver"), view::text(opaque, &["driver"]), errors);
    check_raw(opaque.get("parameters"), MAX_PARAMETERS_BYTES, &path.child("parameters"), errors);
}

/// Validates an object that is passed on unchanged.
pub(super) fn check_raw(raw: Option<&Value>, max_bytes: usize, path: &Path<'_>, errors: &mut ErrorList) {
    match raw {
        None | Some(Value::Null) => errors.push(FieldError::required(path, "")),
        Some(raw) if raw.to_string().len() > max_bytes => {
            errors.push(FieldError::too_long(path, max_bytes).unless(ratchet::PARAMETERS_SIZE));
        }
        Some(Value::Object(_)) => {}
        Some(_) => {
            errors.push(FieldError::invalid(path, "<value omitted>", "must be a valid JSON object"));
        }
    }
}
