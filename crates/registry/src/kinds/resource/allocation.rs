//! Status of a claim: allocated devices, reservations, and reports of drivers about the devices.

use std::collections::BTreeSet;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::configuration::{MAX_CONFIGURATIONS, MAX_PARAMETERS_BYTES, check_configuration, check_raw};
use super::device_requests::{MAX_REQUESTS, check_reference, check_references};
use super::lists::{check_list, check_set, text_key};
use super::{devices, naming, node_selection, taints};
use crate::kinds::storage::driver_name;
use crate::kinds::{conditions, rules};
use crate::{internal_types, view};

/// Maximum number of pods that share a claim, as in kube-apiserver.
const MAX_RESERVED_FOR: usize = 256;

/// Maximum number of conditions of a device, as in kube-apiserver.
const MAX_DEVICE_CONDITIONS: usize = 8;

/// Maximum number of addresses of a network device, as in kube-apiserver.
const MAX_ADDRESSES: usize = 16;

/// Texts about a network device and their maximum lengths, as in kube-apiserver.
const NETWORK_TEXTS: [(&str, usize); 2] = [("interfaceName", 256), ("hardwareAddress", 128)];

/// Sets the defaults of the allocated devices.
pub(super) fn set_defaults(claim: &mut Value) {
    let results = claim.pointer_mut("/status/allocation/devices/results").and_then(Value::as_array_mut);
    for result in results.into_iter().flatten() {
        taints::set_toleration_defaults(result);
    }
}

/// Validates an update of the status.
pub(super) fn check_status(new: &Value, old: &Value, errors: &mut ErrorList) {
    let path = Path::root("status");
    let reserved = view::items(new, &["status", "reservedFor"]);
    let reserved_path = path.child("reservedFor");
    let uid = |consumer: &Value| view::text(consumer, &["uid"]).to_owned();
    check_set(reserved, MAX_RESERVED_FOR, &reserved_path, errors, uid, |consumer, path, errors| {
        for field in ["resource", "name", "uid"] {
            rules::required(&path.child(field), view::text(consumer, &[field]), errors);
        }
    });
    let allocated_keys = allocated(new);
    let reports = view::items(new, &["status", "devices"]);
    check_set(reports, usize::MAX, &path.child("devices"), errors, device_key, |report, path, errors| {
        check_report(report, &allocated_keys, path, errors);
    });
    check_reservations(new, old, &reserved_path, errors);
    let (before, after) =
        (view::at(old, &["status", "allocation"]), view::at(new, &["status", "allocation"]));
    match (before, after) {
        (Some(_), Some(_)) => {
            rules::unchanged("*@resource.AllocationResult", &path.child("allocation"), after, before, errors)
        }
        (None, Some(allocation)) => check_allocation(allocation, new, &path.child("allocation"), errors),
        (_, None) => {}
    }
}

/// Removes reports of drivers about devices that are no longer allocated.
pub(super) fn drop_deallocated(new: &mut Value, old: &Value) {
    let (before, after) = (allocated(old), allocated(new));
    let Some(status) = new.get_mut("status").and_then(Value::as_object_mut) else { return };
    let Some(reports) = status.get_mut("devices").and_then(Value::as_array_mut) else { return };
    reports.retain(|report| {
        let key = device_key(report);
        !before.contains(&key) || after.contains(&key)
    });
    if reports.is_empty() {
        status.remove("devices");
    }
}

/// Keys of the allocated devices.
fn allocated(object: &Value) -> BTreeSet<String> {
    view::items(object, &["status", "allocation", "devices", "results"]).iter().map(device_key).collect()
}

/// Key of a device, or of a share of it.
fn device_key(device: &Value) -> String {
    let mut key = ["driver", "pool", "device"].map(|field| view::text(device, &[field])).join("/");
    if let Some(share) = device.get("shareID").and_then(Value::as_str) {
        key.push('/');
        key.push_str(share);
    }
    key
}

fn check_reservations(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let reserved = view::items(new, &["status", "reservedFor"]);
    let before = view::items(old, &["status", "reservedFor"]);
    if reserved.is_empty() {
        return;
    }
    if view::at(new, &["status", "allocation"]).is_none() {
        let detail = "may not be specified when `allocated` is not set";
        errors.push(FieldError::forbidden(path, detail));
    } else if view::at(new, &["metadata", "deletionTimestamp"]).is_some()
        && reserved.iter().any(|consumer| !before.contains(consumer))
    {
        let detail =
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.push(FieldError::forbidden(path, detail));
    }
}

fn check_allocation(allocation: &Value, claim: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let none = Value::Null;
    let requests = view::at(claim, &["spec", "devices"]).unwrap_or(&none);
    let devices_path = path.child("devices");
    let results = view::items(allocation, &["devices", "results"]);
    check_list(results, MAX_REQUESTS, &devices_path.child("results"), errors, |result, path, errors| {
        check_reference(view::text(result, &["request"]), requests, &path.child("request"), errors);
        check_device_id(result, path, errors);
        devices::check_binding_conditions(result, path, errors);
    });
    let configurations = view::items(allocation, &["devices", "config"]);
    let config_path = devices_path.child("config");
    // The configurations of the class and those of the claim.
    check_list(configurations, 2 * MAX_CONFIGURATIONS, &config_path, errors, |config, path, errors| {
        let (source, source_path) = (view::text(config, &["source"]), path.child("source"));
        if rules::required(&source_path, source, errors) {
            rules::one_of(&source_path, source, &["FromClaim", "FromClass"], errors);
        }
        check_references(config, requests, path, errors);
        check_configuration(config, path, errors);
    });
    if let Some(selector) = allocation.get("nodeSelector") {
        node_selection::check_node_selector(selector, &path.child("nodeSelector"), errors);
    }
}

fn check_device_id(device: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    driver_name(&path.child("driver"), view::text(device, &["driver"]), errors);
    naming::pool_name(&path.child("pool"), view::text(device, &["pool"]), errors);
    naming::label(&path.child("device"), view::text(device, &["device"]), errors);
    if let Some(share) = device.get("shareID").and_then(Value::as_str) {
        naming::uid(&path.child("shareID"), share, errors);
    }
}

fn check_report(report: &Value, allocated_keys: &BTreeSet<String>, path: &Path<'_>, errors: &mut ErrorList) {
    check_device_id(report, path, errors);
    let key = device_key(report);
    if !allocated_keys.contains(&key) {
        let found = internal_types::printed("@structured.SharedDeviceID", Some(report));
        errors.push(FieldError::invalid(path, found, "must be an allocated device in the claim"));
    }
    let (found, conditions_path) = (view::items(report, &["conditions"]), path.child("conditions"));
    if found.len() > MAX_DEVICE_CONDITIONS {
        errors.push(FieldError::too_many(&conditions_path, found.len(), MAX_DEVICE_CONDITIONS));
    }
    conditions::check(found, &conditions_path, errors);
    if let Some(data) = report.get("data") {
        check_raw(Some(data), MAX_PARAMETERS_BYTES, &path.child("data"), errors);
    }
    let network = path.child("networkData");
    for (field, max) in NETWORK_TEXTS {
        if view::text(report, &["networkData", field]).len() > max {
            errors.push(FieldError::too_long(&network.child(field), max));
        }
    }
    let addresses = view::items(report, &["networkData", "ips"]);
    check_set(addresses, MAX_ADDRESSES, &network.child("ips"), errors, text_key, |address, path, errors| {
        errors.extend(name::interface_address(path, address.as_str().unwrap_or_default()));
    });
}
