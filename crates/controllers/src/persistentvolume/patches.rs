//! Patches of volumes and claims. Each fails if the object has changed.

use serde_json::{Value, json};

use super::annotations::{
    BETA_STORAGE_PROVISIONER, BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, STORAGE,
    STORAGE_PROVISIONER, is_bind_completed, is_bound_to, phase,
};
use super::volume::is_bound_by_controller;
use crate::view::{PersistentVolume, PersistentVolumeClaim};

const YES: &str = "yes";

/// Binds a volume to a claim; none if it is bound to it.
pub(super) fn bind_volume(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Value> {
    let metadata = &claim.metadata;
    let is_bound = volume.spec.claim_ref.as_ref().is_some_and(|bound| {
        (&*bound.name, &*bound.namespace, &*bound.uid)
            == (metadata.name(), metadata.namespace(), metadata.uid())
    });
    let needs_mark = !is_bound_to(volume, claim) && !is_bound_by_controller(volume);
    if is_bound && !needs_mark {
        return None;
    }
    let mut patch = json!({"metadata": {"resourceVersion": volume.metadata.resource_version()}});
    if needs_mark {
        patch["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: YES});
    }
    if !is_bound {
        patch["spec"]["claimRef"] = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": metadata.namespace(),
            "name": metadata.name(), "uid": metadata.uid(), "resourceVersion": metadata.resource_version(),
        });
    }
    Some(patch)
}

/// Unbinds a volume. If the user had reserved it for a claim, it stays reserved.
pub(super) fn unbind_volume(volume: &PersistentVolume) -> Value {
    let mut patch = json!({"metadata": {"resourceVersion": volume.metadata.resource_version()}});
    if is_bound_by_controller(volume) {
        patch["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: null});
        patch["spec"]["claimRef"] = Value::Null;
    } else {
        patch["spec"]["claimRef"] = json!({"uid": null});
    }
    patch
}

/// Sets the phase of a volume; `None` if it has it.
pub(super) fn volume_phase(volume: &PersistentVolume, phase: &str, message: &str) -> Option<Value> {
    let metadata = json!({"resourceVersion": volume.metadata.resource_version()});
    let message = if message.is_empty() { Value::Null } else { message.into() };
    let is_new = *volume.status.phase != *phase;
    is_new.then(|| json!({"metadata": metadata, "status": {"phase": phase, "message": message}}))
}

/// Binds a claim to a volume; `None` if it is bound to it.
pub(super) fn bind_claim(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<Value> {
    let is_bound = *claim.spec.volume_name == *volume.metadata.name();
    if is_bound && is_bind_completed(claim) {
        return None;
    }
    let mut patch = json!({"metadata": {
        "resourceVersion": claim.metadata.resource_version(), "annotations": {BIND_COMPLETED: YES},
    }});
    if !is_bound {
        patch["metadata"]["annotations"][BOUND_BY_CONTROLLER] = YES.into();
        patch["spec"]["volumeName"] = volume.metadata.name().into();
    }
    Some(patch)
}

/// Sets the phase of a claim, and the properties of its volume; `None` if nothing changes.
pub(super) fn claim_status(
    claim: &PersistentVolumeClaim,
    phase: &str,
    volume: Option<&PersistentVolume>,
) -> Option<Value> {
    let known = &claim.status;
    let is_new = *known.phase != *phase;
    let mut status = json!({});
    if is_new {
        status["phase"] = phase.into();
    }
    if let Some(volume) = volume {
        let spec = &volume.spec;
        if known.access_modes != spec.access_modes {
            status["accessModes"] = json!(spec.access_modes);
        }
        // Later the claim may differ from the volume, for example while the filesystem is not resized yet.
        if is_new && known.capacity.get(STORAGE) != spec.capacity.get(STORAGE) {
            status["capacity"] = json!(spec.capacity);
        }
        let binds = *known.phase == *phase::PENDING && phase == phase::BOUND;
        if binds && known.current_volume_attributes_class_name != spec.volume_attributes_class_name {
            status["currentVolumeAttributesClassName"] = json!(spec.volume_attributes_class_name);
        }
    } else {
        if !known.access_modes.is_empty() {
            status["accessModes"] = Value::Null;
        }
        if !known.capacity.is_empty() {
            status["capacity"] = Value::Null;
        }
        if known.current_volume_attributes_class_name.is_some() {
            status["currentVolumeAttributesClassName"] = Value::Null;
        }
    }
    let is_changed = status.as_object().is_some_and(|fields| !fields.is_empty());
    let metadata = json!({"resourceVersion": claim.metadata.resource_version()});
    is_changed.then(|| json!({"metadata": metadata, "status": status}))
}

/// Sets the provisioner of a claim; `None` if it is set.
pub(super) fn claim_provisioner(claim: &PersistentVolumeClaim, provisioner: &str) -> Option<Value> {
    let is_new = claim.metadata.annotations.get(STORAGE_PROVISIONER) != Some(provisioner);
    let annotations = json!({BETA_STORAGE_PROVISIONER: provisioner, STORAGE_PROVISIONER: provisioner});
    let version = claim.metadata.resource_version();
    is_new.then(|| json!({"metadata": {"resourceVersion": version, "annotations": annotations}}))
}

/// Sets the storage class of a claim.
pub(super) fn claim_class(claim: &PersistentVolumeClaim, class: &str) -> Value {
    let metadata = json!({"resourceVersion": claim.metadata.resource_version()});
    json!({"metadata": metadata, "spec": {"storageClassName": class}})
}

/// Clears the selected node, so that the scheduler selects another one.
pub(super) fn clear_selected_node(claim: &PersistentVolumeClaim) -> Value {
    let version = claim.metadata.resource_version();
    json!({"metadata": {"resourceVersion": version, "annotations": {SELECTED_NODE: null}}})
}
