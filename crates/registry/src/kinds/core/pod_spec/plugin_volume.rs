//! Volume sources that storage plugins provide; most of them are obsolete.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::check;
use crate::view;

/// Validates a source of this kind.
pub(crate) fn validate(kind: &str, source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in required_fields(kind) {
        check::required(source, field, path, errors);
    }
    match kind {
        "gitRepo" => {
            check::descending_path(view::text(source, &["directory"]), &path.child("directory"), errors);
        }
        "gcePersistentDisk" | "awsElasticBlockStore" => partition(source, path, errors),
        "nfs" => nfs(source, path, errors),
        "iscsi" => iscsi(source, path, errors),
        "flocker" => flocker(source, path, errors),
        "rbd" => {
            monitors(source, path, errors);
            check::required(source, "image", path, errors);
        }
        "cephfs" => monitors(source, path, errors),
        "cinder" => secret_name(source, path, errors),
        "quobyte" => quobyte(source, path, errors),
        "fc" => fibre_channel(source, path, errors),
        "flexVolume" => flex_options(source, &path.child("options"), errors),
        "azureDisk" => azure_disk(source, path, errors),
        "storageos" => storage_os(source, path, errors),
        _ => {}
    }
}

/// Required fields of sources for which these are checked first, or exclusively.
fn required_fields(kind: &str) -> &'static [&'static str] {
    match kind {
        "gitRepo" => &["repository"],
        "gcePersistentDisk" => &["pdName"],
        "awsElasticBlockStore" | "cinder" | "portworxVolume" => &["volumeID"],
        "nfs" => &["server", "path"],
        "iscsi" => &["targetPortal", "iqn"],
        "glusterfs" => &["endpoints", "path"],
        "flexVolume" => &["driver"],
        "azureFile" => &["secretName", "shareName"],
        "vsphereVolume" => &["volumePath"],
        "photonPersistentDisk" => &["pdID"],
        "azureDisk" => &["diskName", "diskURI"],
        "storageos" => &["volumeName"],
        "scaleIO" => &["gateway", "system", "volumeName"],
        _ => &[],
    }
}

fn partition(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let partition = view::integer(source, &["partition"]).unwrap_or(0);
    // Zero means no partition and is valid, although the message does not say so.
    if partition != 0 {
        check::in_range(partition, 1, 255, &path.child("partition"), errors);
    }
}

fn nfs(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let target = view::text(source, &["path"]);
    if !target.starts_with('/') {
        errors.push(FieldError::invalid(&path.child("path"), target, "must be an absolute path"));
    }
}

fn monitors(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if view::items(source, &["monitors"]).is_empty() {
        errors.push(FieldError::required(&path.child("monitors"), ""));
    }
}

fn secret_name(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(secret) = source.get("secretRef") {
        check::required(secret, "name", &path.child("secretRef"), errors);
    }
}

fn lun(value: i64, path: &Path<'_>, errors: &mut ErrorList) {
    check::in_range(value, 0, 255, &path.child("lun"), errors);
}

fn iscsi(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let target = view::text(source, &["iqn"]);
    if !target.is_empty() {
        initiator(target, &path.child("iqn"), errors);
    }
    lun(view::integer(source, &["lun"]).unwrap_or(0), path, errors);
    let authenticates =
        ["chapAuthDiscovery", "chapAuthSession"].iter().any(|field| view::is_true(source, &[field]));
    if authenticates && source.get("secretRef").is_none() {
        errors.push(FieldError::required(&path.child("secretRef"), ""));
    }
    if let Some(name) = source.get("initiatorName").and_then(Value::as_str) {
        initiator(name, &path.child("initiatorname"), errors);
    }
}

/// Limits the length of volume name and target portal, which the node joins into one name.
pub(super) fn iscsi_name(volume: &str, source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let length = volume.len() + 1 + view::text(source, &["targetPortal"]).len();
    if source.get("initiatorName").is_some() && length > 64 {
        let message = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.push(FieldError::invalid(&path.child("name"), volume, message));
    }
}

/// Validates the name of an iSCSI initiator or target, which has one of three formats.
fn initiator(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let alphanumeric = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let fits = match value.get(..3) {
        Some("iqn") => is_iqn(&value[3..]),
        Some("eui") => value.get(4..).is_some_and(|rest| alphanumeric(rest, 16)),
        Some("naa") => value.get(4..).is_some_and(|rest| alphanumeric(rest, 32)),
        _ => {
            let message = "must be valid format starting with iqn, eui, or naa";
            return errors.push(FieldError::invalid(path, value, message));
        }
    };
    if !fits {
        errors.push(FieldError::invalid(path, value, "must be valid format"));
    }
}

/// Returns true for `.2004-10.com.example:name`: a month, a domain and a name within it.
fn is_iqn(rest: &str) -> bool {
    let Some((date_and_domain, name)) = rest.split_once(':') else { return false };
    let Some(date_and_domain) = date_and_domain.strip_prefix('.') else { return false };
    let Some((date, domain)) = date_and_domain.split_once('.') else { return false };
    let digits =
        |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = date.split_once('-').is_some_and(|(year, month)| digits(year, 4) && digits(month, 2));
    let is_domain = !domain.is_empty()
        && domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.');
    let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || ",;*&$|".contains(c));
    is_date && is_domain && is_name
}

fn flocker(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let name = view::text(source, &["datasetName"]);
    match (name.is_empty(), view::text(source, &["datasetUUID"]).is_empty()) {
        (true, true) => {
            errors.push(FieldError::required(path, "one of datasetName and datasetUUID is required"));
        }
        (false, false) => {
            let message = "datasetName and datasetUUID can not be specified simultaneously";
            errors.push(FieldError::invalid(path, "resource", message));
        }
        _ => {}
    }
    if name.contains('/') {
        errors.push(FieldError::invalid(&path.child("datasetName"), name, "must not contain '/'"));
    }
}

fn quobyte(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let registry = view::text(source, &["registry"]);
    let pairs = "must be a host:port pair or multiple pairs separated by commas";
    if registry.is_empty() {
        errors.push(FieldError::required(&path.child("registry"), pairs));
    } else if view::text(source, &["tenant"]).len() >= 65 {
        let message = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(&path.child("tenant"), message));
    } else {
        for pair in registry.split(',') {
            let host = pair.rsplit_once(':').map(|(host, _)| host);
            if !host.is_some_and(|host| !host.contains(':') || host.starts_with('[') && host.ends_with(']')) {
                errors.push(FieldError::invalid(&path.child("registry"), registry, pairs));
            }
        }
    }
    check::required(source, "volume", path, errors);
}

fn fibre_channel(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let targets = view::items(source, &["targetWWNs"]);
    let identifiers = view::items(source, &["wwids"]);
    if targets.is_empty() && identifiers.is_empty() {
        let message = "must specify either targetWWNs or wwids, but not both";
        errors.push(FieldError::required(&path.child("targetWWNs"), message));
    }
    if targets.is_empty() {
        return;
    }
    if !identifiers.is_empty() {
        let message = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(FieldError::invalid(&path.child("targetWWNs"), &Value::Array(targets.to_vec()), message));
    }
    match view::integer(source, &["lun"]) {
        Some(number) => lun(number, path, errors),
        None => {
            let message = "lun is required if targetWWNs is specified";
            errors.push(FieldError::required(&path.child("lun"), message));
        }
    }
}

fn flex_options(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (key, _) in view::fields(source, &["options"]) {
        let namespace = key.split_once('/').map_or(key.as_str(), |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let message = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid(&path.key(key), key.as_str(), message));
        }
    }
}

fn azure_disk(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    check::one_of_if_set(source, "cachingMode", &["None", "ReadOnly", "ReadWrite"], path, errors);
    check::one_of_if_set(source, "kind", &["Dedicated", "Managed", "Shared"], path, errors);
    let managed =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    let blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let (prefix, form) = match source.get("kind").and_then(Value::as_str) {
        Some("Managed") => ("/subscriptions/", managed),
        Some(_) => ("https://", blob),
        None => return,
    };
    let uri = view::text(source, &["diskURI"]);
    if !uri.starts_with(prefix) {
        errors.push(FieldError::not_supported(&path.child("diskURI"), uri, &[form]));
    }
}

fn storage_os(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["volumeName", "volumeNamespace"] {
        let name = view::text(source, &[field]);
        if !name.is_empty() {
            check::dns_label(name, &path.child(field), errors);
        }
    }
    secret_name(source, path, errors);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sources_of_plugins_are_validated() {
        for (kind, source, expected) in [
            ("nfs", json!({"server": "s", "path": "/p"}), ""),
            (
                "nfs",
                json!({"server": "s", "path": "p"}),
                "v.path: Invalid value: \"p\": must be an absolute path",
            ),
            (
                "iscsi",
                json!({"targetPortal": "1.2.3.4", "iqn": "iqn.2004-10.com.example:disk", "lun": 0}),
                "",
            ),
            (
                "iscsi",
                json!({"targetPortal": "1.2.3.4", "iqn": "iqn.x"}),
                "v.iqn: Invalid value: \"iqn.x\": must be valid format",
            ),
            ("fc", json!({"wwids": ["a"]}), ""),
            ("rbd", json!({"monitors": ["a"]}), "v.image: Required value"),
            ("quobyte", json!({"registry": "a:1,b:2", "volume": "x"}), ""),
            (
                "flexVolume",
                json!({"driver": "d", "options": {"kubernetes.io/x": "y"}}),
                "v.options[kubernetes.io/x]: Invalid value: \"kubernetes.io/x\": kubernetes.io and k8s.io namespaces are reserved",
            ),
            ("flocker", json!({}), "v: Required value: one of datasetName and datasetUUID is required"),
        ] {
            let mut errors = ErrorList::new();
            validate(kind, &source, &Path::root("v"), &mut errors);
            assert_eq!(errors.to_string(), expected);
        }
    }
}
