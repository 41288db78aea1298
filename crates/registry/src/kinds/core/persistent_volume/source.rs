//! Volume sources of persistent volumes.
//!
//! Most sources are the same as in pods. The differences are that references name a namespace,
//! because a volume has none, and that some sources exist only here.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::{Value, json};

use crate::kinds::core::pod_spec::{check, plugin_volume};
use crate::kinds::core::rules;
use crate::kinds::core::unified_diff::unified_diff;
use crate::kinds::rules::same;
use crate::{internal_types, view};

/// All sources, in the order in which they are checked.
pub(super) const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

const CSI_SECRETS: [&str; 4] = [
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
];

const MAX_DRIVER_BYTES: usize = 63;

/// Checks that there is exactly one source, and validates it.
pub(super) fn validate(spec: &Value, volume: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let mut found = false;
    for kind in SOURCES {
        let Some(source) = spec.get(kind) else { continue };
        // kube-apiserver does not report this for `flexVolume`.
        if found && kind != "flexVolume" {
            let field = if kind == "cephfs" { "cephFS" } else { kind };
            let detail = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(&path.child(field), detail));
            continue;
        }
        found = true;
        let field = if kind == "gcePersistentDisk" { "persistentDisk" } else { kind };
        check(kind, source, volume, &path.child(field), errors);
        if kind == "local" && spec.get("nodeAffinity").is_none() {
            let detail = "Local volume requires node affinity";
            errors.push(FieldError::required(&path.child("nodeAffinity"), detail));
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
}

fn check(kind: &str, source: &Value, volume: &str, path: &Path<'_>, errors: &mut ErrorList) {
    match kind {
        "hostPath" | "local" => check_path(kind, source, path, errors),
        "csi" => check_csi(source, path, errors),
        kind => plugin_volume::validate(kind, source, path, errors),
    }
    match kind {
        "glusterfs" => check_endpoints_namespace(source, &path.child("endpointsNamespace"), errors),
        "iscsi" => check_iscsi(source, volume, path, errors),
        "cinder" | "storageos" => check_secret_namespace(source, path, errors),
        "azureFile" if source.get("secretNamespace").is_some_and(|namespace| namespace == "") => {
            errors.push(FieldError::required(&path.child("secretNamespace"), ""));
        }
        _ => {}
    }
}

fn check_path(kind: &str, source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let target = view::text(source, &["path"]);
    if target.is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
        return;
    }
    check::no_backsteps(target, &path.child("path"), errors);
    if kind == "hostPath" {
        let path_type = view::text(source, &["type"]);
        rules::one_of(path_type, HOST_PATH_TYPES, &path.child("type"), errors);
    }
}

fn check_endpoints_namespace(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match source.get("endpointsNamespace").and_then(Value::as_str) {
        None => {}
        Some("") => {
            let detail = "if the endpointnamespace is set, it must be a valid namespace name";
            errors.push(FieldError::invalid(path, "", detail));
        }
        Some(namespace) => rules::text(namespace, name::dns1123_label, path, errors),
    }
}

fn check_iscsi(source: &Value, volume: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let portal = view::text(source, &["targetPortal"]);
    if source.get("initiatorName").is_some() && volume.len() + 1 + portal.len() > 64 {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.push(FieldError::invalid(&path.child("targetportal"), portal, detail));
    }
    if let Some(secret) = source.get("secretRef") {
        rules::required_fields(secret, &["name"], &path.child("secretRef"), errors);
    }
}

fn check_secret_namespace(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(secret) = source.get("secretRef") {
        rules::required_fields(secret, &["namespace"], &path.child("secretRef"), errors);
    }
}

fn check_csi(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    check_driver(view::text(source, &["driver"]), &path.child("driver"), errors);
    rules::required_fields(source, &["volumeHandle"], path, errors);
    for field in CSI_SECRETS {
        let Some(secret) = source.get(field) else { continue };
        let path = path.child(field);
        let part = |name: &str| view::text(secret, &[name]);
        rules::required_text(part("name"), name::dns1123_subdomain, &path.child("name"), errors);
        rules::required_text(part("namespace"), name::dns1123_label, &path.child("namespace"), errors);
    }
}

fn check_driver(driver: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if driver.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if driver.len() > MAX_DRIVER_BYTES {
        errors.push(FieldError::too_long(path, MAX_DRIVER_BYTES));
    }
    for message in name::dns1123_subdomain(&driver.to_lowercase()) {
        errors.push(FieldError::invalid(path, driver, message));
    }
}

/// Sets defaults of the source.
pub(super) fn set_defaults(spec: &mut Value) {
    let defaults = [
        ("rbd", json!({"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"})),
        ("iscsi", json!({"iscsiInterface": "default"})),
        (
            "azureDisk",
            json!({"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": false, "kind": "Shared"}),
        ),
        ("scaleIO", json!({"storageMode": "ThinProvisioned", "fsType": "xfs"})),
        ("hostPath", json!({"type": ""})),
    ];
    for (kind, defaults) in defaults {
        if let (Some(Value::Object(source)), Value::Object(defaults)) = (spec.get_mut(kind), defaults) {
            for (field, value) in defaults {
                let present = source.get(&field).is_some_and(|value| value != "" || kind == "azureDisk");
                if !present {
                    source.insert(field, value);
                }
            }
        }
    }
}

/// Checks that the source of a volume is unchanged, but for a `controllerExpandSecretRef` added later.
pub(super) fn check_unchanged(new: &Value, old: &Value, errors: &mut ErrorList) {
    let mut new = new.clone();
    let secret = "controllerExpandSecretRef";
    if view::at(old, &["csi"]).is_some_and(|csi| csi.get(secret).is_none())
        && let Some(Value::Object(csi)) = new.get_mut("csi")
    {
        csi.remove(secret);
    }
    if SOURCES.iter().any(|kind| !same(new.get(kind), old.get(kind))) {
        let [before, after] =
            [old, &new].map(|spec| internal_types::indented("@core.PersistentVolumeSource", Some(spec)));
        let difference = unified_diff(&before, &after);
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errors.push(FieldError::forbidden(&Path::root("spec.persistentvolumesource"), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validation_errors(kind: &str, source: Value) -> String {
        let mut errors = ErrorList::new();
        check(kind, &source, "volume", &Path::root("s"), &mut errors);
        errors.to_string()
    }

    #[test]
    fn changed_source_is_rejected_with_a_diff() {
        let [old, new] = ["/a", "/b"].map(|path| json!({"hostPath": {"path": path, "type": ""}}));
        let mut errors = ErrorList::new();
        check_unchanged(&new, &old, &mut errors);
        let difference = r#"@@ -2,7 +2,7 @@
  "GCEPersistentDisk": null,
  "AWSElasticBlockStore": null,
  "HostPath": {
-  "Path": "/a",
+  "Path": "/b",
   "Type": ""
  },
  "Glusterfs": null,
"#;
        let expected = format!(
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n{difference}"
        );
        assert_eq!(errors.to_string(), expected);
    }

    #[test]
    fn references_without_namespace_are_rejected() {
        assert_eq!(
            validation_errors("cinder", json!({"volumeID": "v", "secretRef": {"name": "a"}})),
            "s.secretRef.namespace: Required value"
        );
        assert_eq!(
            validation_errors(
                "azureFile",
                json!({"secretName": "a", "shareName": "b", "secretNamespace": ""})
            ),
            "s.secretNamespace: Required value"
        );
        assert_eq!(
            validation_errors(
                "csi",
                json!({"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": {"name": "a"}})
            ),
            "s.nodePublishSecretRef.namespace: Required value"
        );
        assert!(
            validation_errors("glusterfs", json!({"endpoints": "e", "path": "p", "endpointsNamespace": "A"}))
                .contains("endpointsNamespace")
        );
    }

    #[test]
    fn csi_driver_must_be_a_domain_name() {
        assert_eq!(validation_errors("csi", json!({"driver": "Csi.Example.com", "volumeHandle": "h"})), "");
        assert_eq!(validation_errors("csi", json!({"driver": "d"})), "s.volumeHandle: Required value");
        assert!(
            validation_errors("csi", json!({"driver": "a_b", "volumeHandle": "h"}))
                .contains("s.driver: Invalid value")
        );
        let long = validation_errors("csi", json!({"driver": "a".repeat(64), "volumeHandle": "h"}));
        assert!(long.contains("s.driver: Too long: may not be more than 63 bytes"), "{long}");
    }

    #[test]
    fn path_with_parent_segments_is_rejected() {
        assert_eq!(
            validation_errors("local", json!({"path": "/a/../b"})),
            "s.path: Invalid value: \"/a/../b\": must not contain '..'"
        );
        assert_eq!(validation_errors("hostPath", json!({})), "s.path: Required value");
        assert!(
            validation_errors("hostPath", json!({"path": "/a", "type": "Some"}))
                .contains("Unsupported value")
        );
    }
}
