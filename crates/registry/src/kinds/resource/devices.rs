//! Devices that a driver offers, and the counters that they share.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::lists::{check_list, check_set};
use super::node_selection::used_selection_fields;
use super::{capacity, naming, taints};
use crate::kinds::ratchet;
use crate::kinds::rules;
use crate::{internal_types, view};

/// Maximum number of attributes and capacities together, as in kube-apiserver.
const MAX_ATTRIBUTES_AND_CAPACITIES: usize = 32;

/// Maximum length of the value of an attribute, as in kube-apiserver.
const MAX_ATTRIBUTE_BYTES: usize = 64;

/// Maximum number of counter sets that a device consumes, as in kube-apiserver.
const MAX_CONSUMPTIONS: usize = 2;

/// Maximum number of counters of a set, and of those that a device consumes of a set, as in kube-apiserver.
const MAX_COUNTERS: usize = 32;

/// Maximum number of binding conditions, and of binding failure conditions, as in kube-apiserver.
const MAX_BINDING_CONDITIONS: usize = 4;

/// The lists of values of an attribute, which the feature gate DRAListTypeAttributes disables.
const LIST_VALUES: [&str; 4] = ["bools", "ints", "strings", "versions"];

/// The field that the feature gate DRANodeAllocatableResources disables.
const MAPPINGS: &str = "nodeAllocatableResourceMappings";

/// Calls `change` with each device of a slice.
pub(super) fn for_each_mut(slice: &mut Value, change: impl FnMut(&mut Value)) {
    let devices = slice.pointer_mut("/spec/devices").and_then(Value::as_array_mut);
    devices.into_iter().flatten().for_each(change);
}

/// Removes the fields of disabled features, unless the stored slice uses the feature.
pub(super) fn drop_disabled_fields(new: &mut Value, old: Option<&Value>) {
    let old = old.map_or(&[][..], |old| view::items(old, &["spec", "devices"]));
    if !old.iter().any(has_list_values) {
        for_each_mut(new, drop_list_values);
    }
    if !old.iter().any(|device| view::fields(device, &[MAPPINGS]).next().is_some()) {
        for_each_mut(new, |device| remove(device, MAPPINGS));
    }
}

fn has_list_values(device: &Value) -> bool {
    let mut attributes = view::fields(device, &["attributes"]);
    attributes.any(|(_, attribute)| LIST_VALUES.iter().any(|list| attribute.get(list).is_some()))
}

fn drop_list_values(device: &mut Value) {
    let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
    for attribute in attributes.into_iter().flat_map(|attributes| attributes.values_mut()) {
        LIST_VALUES.iter().for_each(|list| remove(attribute, list));
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Value::Object(fields) = object {
        fields.remove(field);
    }
}

/// Validates a device of a slice.
pub(super) fn check(device: &Value, own_nodes: bool, path: &Path<'_>, errors: &mut ErrorList) {
    naming::label(&path.child("name"), view::text(device, &["name"]), errors);
    let count = view::fields(device, &["attributes"]).count() + view::fields(device, &["capacity"]).count();
    if count > MAX_ATTRIBUTES_AND_CAPACITIES {
        let detail = format!(
            "the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}"
        );
        let found = BadValue::Json(count.to_string());
        errors.push(FieldError::invalid(path, found, detail));
    }
    check_attributes(device, &path.child("attributes"), errors);
    check_capacity(device, &path.child("capacity"), errors);
    errors.ratcheted(ratchet::DEVICE_TAINTS, |errors| {
        taints::check_taints(view::items(device, &["taints"]), &path.child("taints"), errors);
    });
    let (consumed, consumed_path) =
        (view::items(device, &["consumesCounters"]), path.child("consumesCounters"));
    let set_name = |consumption: &Value| view::text(consumption, &["counterSet"]).to_owned();
    check_set(consumed, MAX_CONSUMPTIONS, &consumed_path, errors, set_name, |consumption, path, errors| {
        check_counters(consumption, "counterSet", path, errors);
    });
    check_nodes(device, own_nodes, path, errors);
    check_binding_conditions(device, path, errors);
}

/// Validates the name of a counter set, and its counters.
pub(super) fn check_counters(owner: &Value, name_field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let set = view::text(owner, &[name_field]);
    rules::required_name(&path.child(name_field), set, name::dns1123_label, errors);
    let (path, count) = (path.child("counters"), view::fields(owner, &["counters"]).count());
    if count == 0 {
        errors.push(FieldError::required(&path, ""));
    } else if count > MAX_COUNTERS {
        errors.push(FieldError::too_many(&path, count, MAX_COUNTERS));
    } else {
        for (counter, _) in view::fields(owner, &["counters"]) {
            naming::label(&path, counter, errors);
        }
    }
}

fn check_attributes(device: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (attribute, value) in view::fields(device, &["attributes"]) {
        naming::qualified_name(path, attribute, errors);
        let path = path.key(attribute);
        let values = ["bool", "int", "string", "version"];
        let given = values.iter().filter(|sort| value.get(**sort).is_some()).count();
        check_attribute_value(value, "string", |_| true, &path, errors);
        check_attribute_value(value, "version", naming::is_semantic_version, &path, errors);
        if given != 1 {
            let found = if given == 0 {
                BadValue::from("")
            } else {
                internal_types::printed("@resource.DeviceAttribute", Some(value))
            };
            errors.push(FieldError::invalid(&path, found, "exactly one value must be specified"));
        }
    }
}

fn check_attribute_value(
    attribute: &Value,
    sort: &str,
    is_valid: fn(&str) -> bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let Some(value) = attribute.get(sort).and_then(Value::as_str) else { return };
    let path = path.child(sort);
    if !is_valid(value) {
        let detail = "must be a string compatible with semver.org spec 2.0.0";
        errors.push(FieldError::invalid(&path, value, detail));
    }
    if value.len() > MAX_ATTRIBUTE_BYTES {
        errors.push(FieldError::too_long(&path, MAX_ATTRIBUTE_BYTES));
    }
}

fn check_capacity(device: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let shared = view::is_true(device, &["allowMultipleAllocations"]);
    for (capacity, value) in view::fields(device, &["capacity"]) {
        naming::qualified_name(path, capacity, errors);
        let path = path.key(capacity);
        if shared {
            capacity::check_policy(value, &path, errors);
        } else if value.get("requestPolicy").is_some() {
            let detail = "allowMultipleAllocations must be true";
            errors.push(FieldError::forbidden(&path.child("requestPolicy"), detail));
        }
    }
}

/// Validates the node selection of a device, which is allowed only if the slice delegates it to its devices.
fn check_nodes(device: &Value, own_nodes: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let selection_fields = ["nodeName", "nodeSelector", "allNodes"];
    if !own_nodes {
        if selection_fields.iter().any(|field| device.get(*field).is_some()) {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` \
                          is set to true in the ResourceSlice spec";
            errors.push(FieldError::invalid(path, &Value::Null, detail));
        }
        return;
    }
    let used = used_selection_fields(device, &selection_fields, "must not be empty", path, errors);
    let detail = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                  `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match used.as_slice() {
        [] => errors.push(FieldError::required(path, detail)),
        [_] => {}
        several => errors.push(FieldError::invalid(path, format!("{{{}}}", several.join(", ")), detail)),
    }
}

/// Validates conditions that binding waits for, and those that make it fail.
pub(super) fn check_binding_conditions(owner: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let fields = ["bindingConditions", "bindingFailureConditions"];
    let [wanted, failing] = fields.map(|field| view::items(owner, &[field]));
    let [wanted_path, failing_path] = fields.map(|field| path.child(field));
    for (conditions, path) in [(wanted, &wanted_path), (failing, &failing_path)] {
        check_list(conditions, MAX_BINDING_CONDITIONS, path, errors, |condition, path, errors| {
            naming::label_name(path, condition.as_str().unwrap_or_default(), errors);
        });
    }
    check_unique(wanted, &wanted_path, errors);
    check_unique(failing, &failing_path, errors);
    for (index, condition) in failing.iter().enumerate().filter(|(_, condition)| wanted.contains(condition)) {
        let detail = "bindingFailureConditions must not overlap with bindingConditions";
        errors.push(FieldError::invalid(&failing_path.index(index), condition, detail));
    }
    let mut missing = |path: &Path<'_>, detail: &str| {
        errors.push(FieldError::invalid(path, BadValue::Json("null".to_owned()), detail));
    };
    match (wanted.is_empty(), failing.is_empty()) {
        (true, false) => {
            missing(&wanted_path, "bindingConditions are required to use bindingFailureConditions")
        }
        (false, true) => {
            missing(&failing_path, "bindingFailureConditions are required to use bindingConditions")
        }
        _ => {}
    }
}

fn check_unique(items: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().filter_map(Value::as_str).enumerate() {
        if !seen.insert(item) {
            errors.push(FieldError::duplicate(&path.index(index), item));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_disabled_features_are_dropped_unless_stored() {
        let slice = |attribute: Value, mappings: Value| {
            json!({"spec": {"devices": [
                {"name": "a", "attributes": {"x": attribute}, "nodeAllocatableResourceMappings": mappings},
            ]}})
        };
        let sent = slice(json!({"int": 1, "ints": [1]}), json!({"cpu": {"capacityKey": "c"}}));
        let mut new = sent.clone();
        drop_disabled_fields(&mut new, None);
        assert_eq!(new, json!({"spec": {"devices": [{"name": "a", "attributes": {"x": {"int": 1}}}]}}));
        let mut unchanged = sent.clone();
        drop_disabled_fields(&mut unchanged, Some(&sent));
        assert_eq!(unchanged, sent);
        let mut updated = sent.clone();
        drop_disabled_fields(&mut updated, Some(&new));
        assert_eq!(updated, new);
    }
}
