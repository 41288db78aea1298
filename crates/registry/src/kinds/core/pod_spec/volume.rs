//! Volumes of a pod.

use std::collections::{BTreeMap, BTreeSet};

use coracle_meta::field::{ErrorList, FieldError, Path, quoted};
use coracle_meta::name;
use coracle_meta::quantity::Quantity;
use serde_json::Value;

use super::spec::Owner;
use super::{check, claim_template, plugin_volume, projected};
use crate::view;

/// Volume sources, in the order in which they are checked.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Validates all volumes. Returns the valid ones by name.
pub(super) fn validate_all<'a>(
    spec: &'a Value,
    owner: Owner<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> BTreeMap<&'a str, &'a Value> {
    let volumes = view::items(spec, &["volumes"]);
    let created_claims = created_claims(volumes, owner);
    let mut accepted = BTreeMap::new();
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        let before = errors.len();
        source(volume, owner, &path, errors);
        let name = check::required(volume, "name", &path, errors);
        if !name.is_empty() {
            check::dns_label(name, &path.child("name"), errors);
        }
        if accepted.contains_key(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        if errors.len() == before {
            accepted.insert(name, volume);
        }
        let claim = view::text(volume, &["persistentVolumeClaim", "claimName"]);
        if created_claims.contains(claim) {
            let message = "must not reference a PVC that gets created for an ephemeral volume";
            errors.push(FieldError::invalid(&path.child("persistentVolumeClaim.claimName"), claim, message));
        }
    }
    accepted
}

/// Names of the claims that will be created for ephemeral volumes; empty if the pod has no name yet.
fn created_claims(volumes: &[Value], owner: Owner<'_>) -> BTreeSet<String> {
    if owner.name().is_empty() {
        return BTreeSet::new();
    }
    let ephemeral = volumes.iter().filter(|volume| volume.get("ephemeral").is_some());
    ephemeral.map(|volume| format!("{}-{}", owner.name(), view::text(volume, &["name"]))).collect()
}

/// Requires exactly one source.
fn source(volume: &Value, owner: Owner<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut found = false;
    for kind in SOURCES {
        let Some(source) = volume.get(kind) else { continue };
        if found {
            // Field names in messages of kube-apiserver.
            let field = match *kind {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                other => other,
            };
            let message = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(&path.child(field), message));
        } else {
            // Field name in messages of kube-apiserver about the source's own fields.
            let field = if *kind == "gcePersistentDisk" { "persistentDisk" } else { kind };
            one_source(kind, source, owner, &path.child(field), errors);
            if *kind == "ephemeral" {
                claim_name(volume, owner, path, errors);
            }
        }
        if *kind == "iscsi" {
            plugin_volume::iscsi_name(view::text(volume, &["name"]), source, path, errors);
        }
        found = true;
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
}

fn one_source(kind: &str, source: &Value, owner: Owner<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    match kind {
        "emptyDir" => empty_dir(source, path, errors),
        "hostPath" => host_path(source, path, errors),
        "secret" => keys(source, "secretName", path, errors),
        "configMap" => keys(source, "name", path, errors),
        "persistentVolumeClaim" => {
            check::required(source, "claimName", path, errors);
        }
        "downwardAPI" => projected::validate_downward_api(source, path, errors),
        "projected" => projected::validate(source, path, errors),
        "csi" => csi(source, path, errors),
        "ephemeral" => match source.get("volumeClaimTemplate") {
            Some(template) => claim_template::validate(template, &path.child("volumeClaimTemplate"), errors),
            None => errors.push(FieldError::required(&path.child("volumeClaimTemplate"), "")),
        },
        "image" => image(source, owner, path, errors),
        _ => plugin_volume::validate(kind, source, path, errors),
    }
}

fn empty_dir(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let limit = source.get("sizeLimit").and_then(|limit| Quantity::from_json(limit).ok());
    if limit.is_some_and(|limit| limit.sign() < 0) {
        let message = "SizeLimit field must be a valid resource quantity";
        errors.push(FieldError::forbidden(&path.child("sizeLimit"), message));
    }
}

fn host_path(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let target = check::required(source, "path", path, errors);
    if !target.is_empty() {
        check::no_backsteps(target, &path.child("path"), errors);
        check::one_of_if_set(source, "type", HOST_PATH_TYPES, path, errors);
    }
}

/// Validates keys of a ConfigMap or Secret that become files.
fn keys(source: &Value, name_field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    check::required(source, name_field, path, errors);
    check::file_mode(source, "defaultMode", path, errors);
    let items = path.child("items");
    for (index, item) in view::items(source, &["items"]).iter().enumerate() {
        key_to_path(item, &items.index(index), errors);
    }
}

/// Validates one key that becomes a file.
pub(super) fn key_to_path(item: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    check::required(item, "key", path, errors);
    let target = check::required(item, "path", path, errors);
    check::non_reserved_path(target, &path.child("path"), errors);
    check::file_mode(item, "mode", path, errors);
}

fn csi(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    csi_driver_name(view::text(source, &["driver"]), &path.child("driver"), errors);
    if let Some(secret) = source.get("nodePublishSecretRef") {
        let name = check::required(secret, "name", &path.child("nodePublishSecretRef"), errors);
        if !name.is_empty() {
            check::dns_subdomain(name, &path.child("name"), errors);
        }
    }
}

/// Validates the name of a CSI driver.
fn csi_driver_name(driver: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if driver.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    if driver.len() > 63 {
        errors.push(FieldError::too_long(path, 63));
    }
    check::push_all(driver, name::dns1123_subdomain(&driver.to_lowercase()), path, errors);
}

fn image(source: &Value, owner: Owner<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if owner.is_pod() {
        check::required(source, "reference", path, errors);
    }
    check::one_of(source, "pullPolicy", &["Always", "IfNotPresent", "Never"], path, errors);
}

/// Validates the name of the claim for an ephemeral volume, which consists of the names of pod and volume.
fn claim_name(volume: &Value, owner: Owner<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let name = view::text(volume, &["name"]);
    if owner.name().is_empty() || name.is_empty() {
        return;
    }
    let claim = format!("{}-{name}", owner.name());
    for message in name::dns1123_subdomain(&claim) {
        let message = format!("PVC name {}: {message}", quoted(&claim));
        errors.push(FieldError::invalid(&path.child("name"), name, message));
    }
}
