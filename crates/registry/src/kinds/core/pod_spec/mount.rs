//! Volume mounts and block devices of containers.

use std::collections::{BTreeMap, BTreeSet};

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::check;
use super::spec::Context;
use crate::view;

/// Validates volume mounts and block devices of a container.
pub(super) fn validate(container: &Value, context: &Context<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    mounts(container, context, &path.child("volumeMounts"), errors);
    devices(container, context, &path.child("volumeDevices"), errors);
}

/// Paths by volume name. If a volume appears several times, only the last path counts here.
fn paths_by_name<'a>(container: &'a Value, list: &str, field: &str) -> BTreeMap<&'a str, &'a str> {
    let items = view::items(container, &[list]).iter();
    items.map(|item| (view::text(item, &["name"]), view::text(item, &[field]))).collect()
}

fn mounts(container: &Value, context: &Context<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let devices = paths_by_name(container, "volumeDevices", "devicePath");
    let mut targets = BTreeSet::new();
    for (index, mount) in view::items(container, &["volumeMounts"]).iter().enumerate() {
        let mount_path = path.index(index);
        let (name_path, target_path) = (mount_path.child("name"), mount_path.child("mountPath"));
        let name = check::required(mount, "name", &mount_path, errors);
        if !context.volumes.contains_key(name) {
            errors.push(FieldError::not_found(&name_path, name));
        }
        let target = check::required(mount, "mountPath", &mount_path, errors);
        if !targets.insert(target) {
            errors.push(FieldError::invalid(&target_path, target, "must be unique"));
        }
        if devices.contains_key(name) {
            errors.push(FieldError::invalid(&name_path, name, "must not already exist in volumeDevices"));
        }
        if devices.values().any(|other| *other == target) {
            let message = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid(&target_path, target, message));
        }
        sub_path(mount, &mount_path, path, errors);
        propagation(mount, container, &path.child("mountPropagation"), errors);
        recursive_read_only(mount, &path.child("recursiveReadOnly"), errors);
    }
}

/// Validates the subpath. kube-apiserver reports some errors at the list, not at the item.
fn sub_path(mount: &Value, path: &Path<'_>, list: &Path<'_>, errors: &mut ErrorList) {
    let sub_path = view::text(mount, &["subPath"]);
    check::descending_path(sub_path, &list.child("subPath"), errors);
    let expression = view::text(mount, &["subPathExpr"]);
    if !expression.is_empty() && !sub_path.is_empty() {
        let message = "subPathExpr and subPath are mutually exclusive";
        errors.push(FieldError::invalid(&path.child("subPathExpr"), expression, message));
    }
    check::descending_path(expression, &list.child("subPathExpr"), errors);
}

fn propagation(mount: &Value, container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(mode) = mount.get("mountPropagation").and_then(Value::as_str) else { return };
    check::supported(mode, &["Bidirectional", "HostToContainer", "None"], path, errors);
    if mode == "Bidirectional" && !view::is_true(container, &["securityContext", "privileged"]) {
        let message = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(FieldError::forbidden(path, message));
    }
}

fn recursive_read_only(mount: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(mode) = mount.get("recursiveReadOnly").and_then(Value::as_str) else { return };
    check::supported(mode, &["Disabled", "Enabled", "IfPossible"], path, errors);
    if !matches!(mode, "Enabled" | "IfPossible") {
        return;
    }
    if !view::is_true(mount, &["readOnly"]) {
        errors.push(FieldError::forbidden(path, "may only be specified when readOnly is true"));
    }
    if !matches!(view::text(mount, &["mountPropagation"]), "" | "None") {
        let message = "may only be specified when mountPropagation is None or not specified";
        errors.push(FieldError::forbidden(path, message));
    }
}

fn devices(container: &Value, context: &Context<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let mounts = paths_by_name(container, "volumeMounts", "mountPath");
    let (mut names, mut targets) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in view::items(container, &["volumeDevices"]).iter().enumerate() {
        let path = path.index(index);
        let (name_path, target_path) = (path.child("name"), path.child("devicePath"));
        let name = check::required(device, "name", &path, errors);
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::invalid(&name_path, name, "must be unique"));
        }
        device_volume(name, context, &name_path, errors);
        let target = check::required(device, "devicePath", &path, errors);
        if targets.contains(target) {
            errors.push(FieldError::invalid(&target_path, target, "must be unique"));
        }
        if target.split('/').any(|part| part == "..") {
            let message = "can not contain backsteps ('..')";
            errors.push(FieldError::invalid(&target_path, target, message));
        } else {
            targets.insert(target);
        }
        if mounts.contains_key(name) {
            errors.push(FieldError::invalid(&name_path, name, "must not already exist in volumeMounts"));
        }
        if mounts.values().any(|other| *other == target) {
            let message = "must not already exist as a path in volumeMounts";
            errors.push(FieldError::invalid(&target_path, target, message));
        }
    }
}

/// Requires a volume from a claim, since no other can be a block device.
fn device_volume(name: &str, context: &Context<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(volume) = context.volumes.get(name) else {
        return errors.push(FieldError::not_found(path, name));
    };
    if volume.get("persistentVolumeClaim").is_none() && volume.get("ephemeral").is_none() {
        let message = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
        errors.push(FieldError::invalid(path, name, message));
    }
}
