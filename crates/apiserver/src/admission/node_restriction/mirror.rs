//! Checks that a static pod refers to no API objects: its node could read them then.

use coracle_registry::kinds::core::pod::references::{config_map_names, secret_names};
use coracle_registry::view;
use serde_json::Value;

/// Volume sources that need no API objects.
const LOCAL: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Volume sources that need API objects, and the names of these in messages.
const NEEDY: &[(&str, &str)] = &[
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// Projected volume sources that need API objects, likewise.
const PROJECTED: &[(&str, &str)] = &[
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// Returns the first kind of object that a pod refers to.
pub(super) fn needs(pod: &Value) -> Result<Option<&'static str>, String> {
    if !view::text(pod, &["spec", "serviceAccountName"]).is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if secret_names(pod).next().is_some() {
        return Ok(Some("secrets"));
    }
    if config_map_names(pod).next().is_some() {
        return Ok(Some("configmaps"));
    }
    if !view::items(pod, &["spec", "resourceClaims"]).is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in view::items(pod, &["spec", "volumes"]) {
        if let Some(needed) = volume_needs(volume)? {
            return Ok(Some(needed));
        }
    }
    Ok(None)
}

fn volume_needs(volume: &Value) -> Result<Option<&'static str>, String> {
    let name = view::text(volume, &["name"]);
    if LOCAL.iter().any(|source| has(volume, source)) {
        return Ok(None);
    }
    if let Some(needed) = found(volume, NEEDY) {
        return Ok(Some(needed));
    }
    if !has(volume, "projected") {
        return Err(format!("unknown volume type for volume  {name:?}"));
    }
    for source in view::items(volume, &["projected", "sources"]) {
        match found(source, PROJECTED) {
            None if has(source, "downwardAPI") => {}
            None => return Err(format!("unknown source for projected volume {name:?}")),
            needed => return Ok(needed),
        }
    }
    Ok(None)
}

fn found(value: &Value, table: &[(&str, &'static str)]) -> Option<&'static str> {
    table.iter().find(|(source, _)| has(value, source)).map(|(_, needed)| *needed)
}

fn has(value: &Value, source: &str) -> bool {
    view::at(value, &[source]).is_some()
}
