//! Environment variables of containers.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::quantity::Quantity;
use serde_json::Value;

use super::check;
use crate::view;

/// Fields of a pod that a variable may refer to.
const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Fields that exist, whether or not they are allowed here.
const KNOWN_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const BYTE_DIVISORS: &[&str] =
    &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Validates all variables of a container.
pub(super) fn validate(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let env = path.child("env");
    for (index, variable) in view::items(container, &["env"]).iter().enumerate() {
        let path = env.index(index);
        let name = check::required(variable, "name", &path, errors);
        if !name.is_empty() {
            check::push_all(name, name::relaxed_env_var_name(name), &path.child("name"), errors);
        }
        if let Some(source) = variable.get("valueFrom") {
            let has_value = !view::text(variable, &["value"]).is_empty();
            value_from(source, has_value, &path.child("valueFrom"), errors);
        }
    }
    let env_from = path.child("envFrom");
    for (index, source) in view::items(container, &["envFrom"]).iter().enumerate() {
        all_from(source, index, &env_from, errors);
    }
}

fn value_from(source: &Value, has_value: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let mut found = 0;
    for kind in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let Some(reference) = source.get(kind) else { continue };
        found += 1;
        let path = path.child(kind);
        match kind {
            "fieldRef" => field_reference(reference, FIELDS, &path, errors),
            "resourceFieldRef" => resource_reference(reference, false, &path, errors),
            "fileKeyRef" => file_key(reference, &path, errors),
            _ => object_key(reference, &path, errors),
        }
    }
    let message = match (found, has_value) {
        (0, _) => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        (_, true) => "may not be specified when `value` is not empty",
        (1, false) => return,
        (_, false) => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(path, "", message));
}

/// Validates an item of `envFrom`. kube-apiserver reports errors at the list here, not at the item.
fn all_from(source: &Value, index: usize, list: &Path<'_>, errors: &mut ErrorList) {
    let path = list.index(index);
    let prefix = view::text(source, &["prefix"]);
    if !prefix.is_empty() {
        check::push_all(prefix, name::relaxed_env_var_name(prefix), &path.child("prefix"), errors);
    }
    let mut found = 0;
    for kind in ["configMapRef", "secretRef"] {
        let Some(reference) = source.get(kind) else { continue };
        found += 1;
        let path = path.child(kind);
        let name = check::required(reference, "name", &path, errors);
        if !name.is_empty() {
            check::push_all(name, name::object_dns_subdomain(name, true), &path.child("name"), errors);
        }
    }
    let message = match found {
        0 => "must specify one of: `configMapRef` or `secretRef`",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(list, "", message));
}

/// Validates a reference to one of the allowed fields of the pod.
pub(super) fn field_reference(reference: &Value, allowed: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["apiVersion", "fieldPath"] {
        if check::required(reference, field, path, errors).is_empty() {
            return;
        }
    }
    let field = view::text(reference, &["fieldPath"]);
    match resolve(view::text(reference, &["apiVersion"]), field) {
        Err(message) => {
            let message = format!("error converting fieldPath: {message}");
            errors.push(FieldError::invalid(&path.child("fieldPath"), field, message));
        }
        Ok(("metadata.annotations", Some(key))) => {
            check::qualified_name(&key.to_lowercase(), path, errors);
        }
        Ok((_, Some(key))) => check::qualified_name(key, path, errors),
        Ok((field, None)) => {
            if !allowed.contains(&field) {
                errors.push(FieldError::not_supported(&path.child("fieldPath"), field, allowed));
            }
        }
    }
}

/// Resolves a field path to the field and the key in it, if there is one.
fn resolve<'a>(version: &str, field: &'a str) -> Result<(&'a str, Option<&'a str>), String> {
    if version != "v1" {
        return Err(format!("unsupported pod version: {version}"));
    }
    if let Some((map, key)) = field.strip_suffix("']").and_then(|rest| rest.split_once("['")) {
        return match map {
            "metadata.annotations" | "metadata.labels" => Ok((map, Some(key))),
            _ => Err(format!("field label does not support subscript: {field}")),
        };
    }
    match field {
        // Name of the field before v1.
        "spec.host" => Ok(("spec.nodeName", None)),
        _ if KNOWN_FIELDS.contains(&field) => Ok((field, None)),
        _ => Err(format!("field label not supported: {field}")),
    }
}

/// Validates a reference to resources of a container.
pub(super) fn resource_reference(
    reference: &Value,
    lacks_container: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let resource = view::text(reference, &["resource"]);
    let is_huge_pages = ["requests.hugepages-", "limits.hugepages-"].iter().any(|p| resource.starts_with(p));
    if lacks_container {
        errors.push(FieldError::required(&path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(&path.child("resource"), ""));
    } else if !RESOURCES.contains(&resource) && !is_huge_pages {
        errors.push(FieldError::not_supported(&path.child("resource"), resource, RESOURCES));
    }
    divisor(reference, resource, is_huge_pages, path, errors);
}

fn divisor(reference: &Value, resource: &str, is_huge_pages: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(divisor) = reference.get("divisor").and_then(|value| Quantity::from_json(value).ok()) else {
        return;
    };
    let (allowed, list, kind): (&[&str], _, _) = match resource.split_once('.') {
        Some((_, "cpu")) => (&["1m", "1"], "1m and 1", "cpu"),
        Some((_, "memory")) => (BYTE_DIVISORS, BYTE_LIST, "memory"),
        Some((_, "ephemeral-storage")) => (BYTE_DIVISORS, BYTE_LIST, "local ephemeral storage"),
        _ if is_huge_pages => (BYTE_DIVISORS, BYTE_LIST, "hugepages"),
        _ => return,
    };
    if !divisor.is_zero() && !allowed.contains(&divisor.to_string().as_str()) {
        let message = format!("only divisor's values {list} are supported with the {kind} resource");
        errors.push(FieldError::invalid(&path.child("divisor"), resource, message));
    }
}

const BYTE_LIST: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";

/// Validates a reference to a key of a ConfigMap or Secret.
fn object_key(reference: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    check::dns_subdomain(view::text(reference, &["name"]), &path.child("name"), errors);
    let key = check::required(reference, "key", path, errors);
    if !key.is_empty() {
        check::push_all(key, name::config_map_key(key), &path.child("key"), errors);
    }
}

/// Validates a reference to a variable in a file of a volume.
fn file_key(reference: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let key = check::required(reference, "key", path, errors);
    if !key.is_empty() {
        check::push_all(key, name::relaxed_env_var_name(key), &path.child("key"), errors);
    }
    let volume = check::required(reference, "volumeName", path, errors);
    if !volume.is_empty() {
        check::dns_label(volume, &path.child("volumeName"), errors);
    }
    let file = check::required(reference, "path", path, errors);
    check::no_backsteps(file, &path.child("path"), errors);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn value_sources_are_validated() {
        let reference = |field: &str| json!({"fieldRef": {"apiVersion": "v1", "fieldPath": field}});
        for (source, expected) in [
            (reference("metadata.labels['app']"), ""),
            (reference("spec.host"), ""),
            (
                reference("metadata.nope"),
                "e.fieldRef.fieldPath: Invalid value: \"metadata.nope\": error converting fieldPath: field label not supported: metadata.nope",
            ),
            (json!({"secretKeyRef": {"name": "s", "key": "k"}}), ""),
            (json!({"secretKeyRef": {"name": "s"}}), "e.secretKeyRef.key: Required value"),
            (json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}), ""),
            (
                json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}),
                "e.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
            ),
        ] {
            let mut errors = ErrorList::new();
            value_from(&source, false, &Path::root("e"), &mut errors);
            assert_eq!(errors.to_string(), expected);
        }
    }
}
