//! Taints of devices, and tolerations of requests.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::time::Time;
use serde_json::Value;

use super::lists::check_list;
use super::naming;
use crate::kinds::rules;
use crate::view;

/// Maximum number of taints of a device, as in kube-apiserver.
const MAX_TAINTS: usize = 16;

const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Validates the taints of a device.
pub(super) fn check_taints(taints: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    check_list(taints, MAX_TAINTS, path, errors, |taint, path, errors| {
        naming::label_name(&path.child("key"), view::text(taint, &["key"]), errors);
        let value = view::text(taint, &["value"]);
        rules::each_message(&path.child("value"), value, name::label_value(value), errors);
        let (effect, path) = (view::text(taint, &["effect"]), path.child("effect"));
        if rules::required(&path, effect, errors) {
            rules::one_of(&path, effect, &EFFECTS, errors);
        }
    });
}

/// Sets `timeAdded` of the taints of a device to the time of the write.
pub(super) fn set_default_times(device: &mut Value, now: Time) {
    for taint in device.get_mut("taints").and_then(Value::as_array_mut).into_iter().flatten() {
        view::set_default(taint, "timeAdded", || now.to_string().into());
    }
}

/// Sets the operator of the tolerations of a request or of an allocation result.
pub(super) fn set_toleration_defaults(owner: &mut Value) {
    for toleration in owner.get_mut("tolerations").and_then(Value::as_array_mut).into_iter().flatten() {
        if view::text(toleration, &["operator"]).is_empty() {
            toleration["operator"] = "Equal".into();
        }
    }
}

/// Validates the tolerations of a request. kube-apiserver does not enforce the documented limit of 16.
pub(super) fn check_tolerations(tolerations: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    check_list(tolerations, usize::MAX, path, errors, check_toleration);
}

fn check_toleration(toleration: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let key = view::text(toleration, &["key"]);
    if !key.is_empty() {
        naming::label_name(&path.child("key"), key, errors);
    }
    let (value, value_path) = (view::text(toleration, &["value"]), path.child("value"));
    match view::text(toleration, &["operator"]) {
        "Exists" if value.is_empty() => {}
        "Exists" => {
            errors.push(FieldError::invalid(&value_path, value, "must be empty for operator `Exists`"));
        }
        "Equal" => rules::each_message(&value_path, value, name::label_value(value), errors),
        operator => {
            let path = path.child("operator");
            if rules::required(&path, operator, errors) {
                rules::one_of(&path, operator, &["Equal", "Exists"], errors);
            }
        }
    }
    let effect = view::text(toleration, &["effect"]);
    if !effect.is_empty() {
        rules::one_of(&path.child("effect"), effect, &EFFECTS, errors);
    }
}
