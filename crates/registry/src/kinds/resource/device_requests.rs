//! Spec of a claim: requests for devices, constraints between them, and configuration.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::configuration::{MAX_CONFIGURATIONS, check_configuration, check_selectors};
use super::lists::{check_list, check_set, text_key};
use super::{naming, taints};
use crate::kinds::rules;
use crate::view;

/// Maximum number of requests of a claim, as in kube-apiserver.
pub(super) const MAX_REQUESTS: usize = 32;

/// Maximum number of alternatives of a request, as in kube-apiserver.
const MAX_ALTERNATIVES: usize = 8;

/// Maximum number of constraints, as in kube-apiserver.
const MAX_CONSTRAINTS: usize = 32;

/// Sets the defaults of all requests of the claim at a JSON pointer.
pub(super) fn set_defaults(object: &mut Value, pointer: &str) {
    let requests = object.pointer_mut(pointer).and_then(|devices| devices.get_mut("requests"));
    for request in requests.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(exactly) = request.get_mut("exactly") {
            set_request_defaults(exactly);
        }
        for alternative in
            request.get_mut("firstAvailable").and_then(Value::as_array_mut).into_iter().flatten()
        {
            set_request_defaults(alternative);
        }
    }
}

fn set_request_defaults(request: &mut Value) {
    if view::text(request, &["allocationMode"]).is_empty() {
        request["allocationMode"] = "ExactCount".into();
    }
    let exact = view::text(request, &["allocationMode"]) == "ExactCount";
    if exact && view::integer(request, &["count"]).unwrap_or(0) == 0 {
        request["count"] = 1.into();
    }
    taints::set_toleration_defaults(request);
}

/// Validates requests, constraints and configuration.
pub(super) fn check(devices: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let requests = view::items(devices, &["requests"]);
    check_set(requests, MAX_REQUESTS, &path.child("requests"), errors, request_name, check_request);
    let constraints = view::items(devices, &["constraints"]);
    let constraints_path = path.child("constraints");
    check_list(constraints, MAX_CONSTRAINTS, &constraints_path, errors, |constraint, path, errors| {
        check_references(constraint, devices, path, errors);
        check_constraint(constraint, path, errors);
    });
    let configurations = view::items(devices, &["config"]);
    check_list(configurations, MAX_CONFIGURATIONS, &path.child("config"), errors, |config, path, errors| {
        check_references(config, devices, path, errors);
        check_configuration(config, path, errors);
    });
}

fn request_name(request: &Value) -> String {
    view::text(request, &["name"]).to_owned()
}

fn check_request(request: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    naming::label(&path.child("name"), view::text(request, &["name"]), errors);
    let alternatives = view::items(request, &["firstAvailable"]);
    let required = "exactly one of `exactly` or `firstAvailable` is required";
    match (request.get("exactly"), alternatives) {
        (None, []) => errors.push(FieldError::required(path, required)),
        (Some(exactly), []) => check_device(exactly, &path.child("exactly"), errors),
        (Some(_), _) => {
            let detail = format!("{required}, but multiple fields are set");
            errors.push(FieldError::invalid(path, &Value::Null, detail));
        }
        (None, alternatives) => {
            let path = path.child("firstAvailable");
            check_set(
                alternatives,
                MAX_ALTERNATIVES,
                &path,
                errors,
                request_name,
                |request, path, errors| {
                    naming::label(&path.child("name"), view::text(request, &["name"]), errors);
                    check_device(request, path, errors);
                },
            );
        }
    }
}

/// Validates which devices are requested, and how many.
fn check_device(request: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let class = view::text(request, &["deviceClassName"]);
    rules::required_name(&path.child("deviceClassName"), class, name::dns1123_subdomain, errors);
    check_selectors(view::items(request, &["selectors"]), &path.child("selectors"), errors);
    let (mode, count) =
        (view::text(request, &["allocationMode"]), view::integer(request, &["count"]).unwrap_or(0));
    match mode {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            errors.push(FieldError::invalid(&path.child("count"), count, detail));
        }
        "ExactCount" if count <= 0 => {
            errors.push(FieldError::invalid(&path.child("count"), count, "must be greater than zero"));
        }
        _ => drop(rules::one_of(&path.child("allocationMode"), mode, &["All", "ExactCount"], errors)),
    }
    taints::check_tolerations(view::items(request, &["tolerations"]), &path.child("tolerations"), errors);
}

fn check_constraint(constraint: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let text = |field: &str| constraint.get(field).and_then(Value::as_str);
    match (text("matchAttribute"), text("distinctAttribute")) {
        (Some(attribute), _) => {
            naming::fully_qualified_name(&path.child("matchAttribute"), attribute, errors)
        }
        (None, Some(attribute)) => {
            naming::fully_qualified_name(&path.child("distinctAttribute"), attribute, errors);
        }
        (None, None) => {
            let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple \
                          fields are set";
            errors.push(FieldError::required(path, detail));
        }
    }
}

/// Requires that referenced requests exist.
pub(super) fn check_references(owner: &Value, devices: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let references = view::items(owner, &["requests"]);
    check_set(
        references,
        MAX_REQUESTS,
        &path.child("requests"),
        errors,
        text_key,
        |reference, path, errors| {
            check_reference(reference.as_str().unwrap_or_default(), devices, path, errors);
        },
    );
}

/// Validates a reference to a request, or to one of its alternatives after a slash.
pub(super) fn check_reference(reference: &str, devices: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let unknown = || {
        let detail = "must be the name of a request in the claim or the name of a request and a subrequest \
                      separated by '/'";
        FieldError::invalid(path, BadValue::from(reference), detail)
    };
    if reference.matches('/').count() > 1 {
        errors.push(unknown());
        return;
    }
    for segment in reference.split('/') {
        naming::label(path, segment, errors);
    }
    if !exists(reference, devices) {
        errors.push(unknown());
    }
}

fn exists(reference: &str, devices: &Value) -> bool {
    let named =
        |items: &'_ [Value], name: &str| items.iter().rposition(|item| view::text(item, &["name"]) == name);
    let requests = view::items(devices, &["requests"]);
    let (request, alternative) = reference.split_once('/').map_or((reference, None), |(a, b)| (a, Some(b)));
    named(requests, request).is_some_and(|index| {
        let alternatives = view::items(&requests[index], &["firstAvailable"]);
        alternative.is_none_or(|alternative| named(alternatives, alternative).is_some())
    })
}

/// Sample devices of a claim.
#[cfg(any(test, feature = "samples"))]
pub(super) fn sample() -> Value {
    serde_json::json!({
        "requests": [
            {"name": "gpu", "exactly": {
                "deviceClassName": "gpu.example.com",
                "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
                "tolerations": [{"key": "example.com/broken", "operator": "Exists", "effect": "NoSchedule"}],
            }},
            {"name": "net", "firstAvailable": [
                {"name": "fast", "deviceClassName": "fast.example.com", "count": 2},
                {"name": "slow", "deviceClassName": "slow.example.com", "allocationMode": "All"},
            ]},
        ],
        "constraints": [{"requests": ["gpu", "net/fast"], "matchAttribute": "example.com/numa"}],
        "config": [{"requests": ["gpu"], "opaque": {"driver": "gpu.example.com", "parameters": {"mode": "x"}}}],
    })
}

/// Invalid changes of the sample, each with the field of the claim and the reason of the error.
#[cfg(any(test, feature = "samples"))]
pub(super) fn invalid_changes() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    use serde_json::json;

    vec![
        ("/requests/0/name", json!("A"), "spec.devices.requests[0].name", "FieldValueInvalid"),
        ("/requests/1/name", json!("gpu"), "spec.devices.requests[1]", "FieldValueDuplicate"),
        ("/requests/0/exactly", Value::Null, "spec.devices.requests[0]", "FieldValueRequired"),
        ("/requests/1/exactly", json!({}), "spec.devices.requests[1]", "FieldValueInvalid"),
        (
            "/requests/0/exactly/deviceClassName",
            json!(""),
            "spec.devices.requests[0].exactly.deviceClassName",
            "FieldValueRequired",
        ),
        (
            "/requests/0/exactly/count",
            json!(-1),
            "spec.devices.requests[0].exactly.count",
            "FieldValueInvalid",
        ),
        (
            "/requests/0/exactly/allocationMode",
            json!("Some"),
            "spec.devices.requests[0].exactly.allocationMode",
            "FieldValueNotSupported",
        ),
        (
            "/requests/1/firstAvailable/1/count",
            json!(1),
            "spec.devices.requests[1].firstAvailable[1].count",
            "FieldValueInvalid",
        ),
        (
            "/requests/0/exactly/selectors/0/cel",
            Value::Null,
            "spec.devices.requests[0].exactly.selectors[0].cel",
            "FieldValueRequired",
        ),
        (
            "/requests/0/exactly/selectors/0/cel/expression",
            json!("device.name == 'gpu-0'"),
            "spec.devices.requests[0].exactly.selectors[0].cel.expression",
            "FieldValueInvalid",
        ),
        (
            "/requests/0/exactly/tolerations/0/operator",
            json!("Like"),
            "spec.devices.requests[0].exactly.tolerations[0].operator",
            "FieldValueNotSupported",
        ),
        (
            "/constraints/0/requests",
            json!(["x"]),
            "spec.devices.constraints[0].requests[0]",
            "FieldValueInvalid",
        ),
        (
            "/constraints/0/requests",
            json!(["net/x"]),
            "spec.devices.constraints[0].requests[0]",
            "FieldValueInvalid",
        ),
        (
            "/constraints/0/matchAttribute",
            json!("numa"),
            "spec.devices.constraints[0].matchAttribute",
            "FieldValueInvalid",
        ),
        ("/constraints/0/matchAttribute", Value::Null, "spec.devices.constraints[0]", "FieldValueRequired"),
        ("/config/0/opaque", Value::Null, "spec.devices.config[0].opaque", "FieldValueRequired"),
        ("/config/0/opaque/driver", json!(""), "spec.devices.config[0].opaque.driver", "FieldValueRequired"),
        (
            "/config/0/opaque/parameters",
            json!([]),
            "spec.devices.config[0].opaque.parameters",
            "FieldValueInvalid",
        ),
    ]
}
