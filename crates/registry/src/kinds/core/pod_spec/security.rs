//! Security contexts of pods and containers.

use std::collections::BTreeSet;

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::{check, container, windows};
use crate::kinds::ratchet;
use crate::{internal_types, view};

const MAX_SYSCTL_BYTES: usize = 253;
const MAX_PROFILE_BYTES: usize = 4095;
const SYSCTL_REGEX: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Sysctls of the IPC namespace.
const IPC_SYSCTLS: &[&str] = &[
    "kernel.sem",
    "kernel.shm",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
];

/// Validates the security context of a pod.
pub(super) fn validate_pod(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(context) = spec.get("securityContext") else { return };
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        check::identity(context, field, path, errors);
    }
    let groups = path.child("supplementalGroups");
    for (index, group) in view::items(context, &["supplementalGroups"]).iter().enumerate() {
        let group = group.as_i64().unwrap_or(0);
        check::in_range(group, 0, i64::from(i32::MAX), &groups.index(index), errors);
    }
    if view::is_true(spec, &["shareProcessNamespace"]) && view::is_true(spec, &["hostPID"]) {
        let message = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(&path.child("shareProcessNamespace"), true, message));
    }
    sysctls(spec, context, &path.child("sysctls"), errors);
    check::one_of_if_set(context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], path, errors);
    seccomp(context, &path.child("seccompProfile"), errors);
    windows::options(context, &path.child("windowsOptions"), errors);
    app_armor(context, &path.child("appArmorProfile"), errors);
    check::one_of_if_set(context, "supplementalGroupsPolicy", &["Merge", "Strict"], path, errors);
    // The other policy belongs to a feature gate that is off.
    check::one_of_if_set(context, "seLinuxChangePolicy", &["Recursive"], path, errors);
}

/// Validates the security context of a container.
pub(super) fn validate_container(context: &Value, host_users: bool, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["runAsUser", "runAsGroup"] {
        check::identity(context, field, path, errors);
    }
    if let Some(mount) = context.get("procMount").and_then(Value::as_str) {
        let path = path.child("procMount");
        check::supported(mount, &["Default", "Unmasked"], &path, errors);
        if host_users && mount == "Unmasked" {
            let message = "`hostUsers` must be false to use `Unmasked`";
            errors.push(FieldError::invalid(&path, mount, message));
        }
    }
    seccomp(context, &path.child("seccompProfile"), errors);
    escalation(context, path, errors);
    windows::options(context, &path.child("windowsOptions"), errors);
    app_armor(context, &path.child("appArmorProfile"), errors);
}

/// Rejects `allowPrivilegeEscalation: false` for containers that already have all privileges.
fn escalation(context: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if view::at(context, &["allowPrivilegeEscalation"]) != Some(&Value::Bool(false)) {
        return;
    }
    if view::is_true(context, &["privileged"]) {
        let message = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.push(FieldError::invalid(
            path,
            internal_types::printed("*@core.SecurityContext", Some(context)),
            message,
        ));
    }
    for capability in view::items(context, &["capabilities", "add"]) {
        if *capability == "CAP_SYS_ADMIN" {
            let message =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(FieldError::invalid(
                path,
                internal_types::printed("*@core.SecurityContext", Some(context)),
                message,
            ));
        }
    }
}

fn sysctls(spec: &Value, context: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (index, name) in check::names(view::items(context, &["sysctls"])).enumerate() {
        let path = path.index(index);
        let path = path.child("name");
        if name.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if !is_sysctl(name) {
            let message =
                format!("must have at most {MAX_SYSCTL_BYTES} characters and match regex {SYSCTL_REGEX}");
            errors.push(FieldError::invalid(&path, name, message));
        } else if seen.contains(name) {
            errors.push(FieldError::duplicate(&path, name));
        }
        for (field, is_shared) in [("hostNetwork", is_network_sysctl(name)), ("hostIPC", is_ipc_sysctl(name))]
        {
            if is_shared && view::is_true(spec, &[field]) {
                let message = format!("may not be specified when '{field}' is true");
                errors.push(FieldError::invalid(&path, name, message).unless(ratchet::HOST_SYSCTLS));
            }
        }
        seen.insert(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let fits = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(alphanumeric)
            && bytes.last().is_some_and(alphanumeric)
            && bytes.iter().all(|byte| alphanumeric(byte) || b"-_".contains(byte))
    };
    name.len() <= MAX_SYSCTL_BYTES && name.split(['.', '/']).all(fits)
}

/// Converts a sysctl name to dots as separators. The first separator determines the notation; the other character may
/// occur within the parts.
fn dotted(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name.as_bytes()[at] == b'/' => name
            .chars()
            .map(|c| match c {
                '/' => '.',
                '.' => '/',
                other => other,
            })
            .collect(),
        _ => name.to_owned(),
    }
}

fn is_network_sysctl(name: &str) -> bool {
    dotted(name).starts_with("net.")
}

fn is_ipc_sysctl(name: &str) -> bool {
    let name = dotted(name);
    IPC_SYSCTLS.contains(&name.as_str()) || name.starts_with("fs.mqueue.")
}

fn seccomp(context: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(profile) = context.get("seccompProfile") else { return };
    let kind = view::text(profile, &["type"]);
    let localhost = profile.get("localhostProfile").and_then(Value::as_str);
    let allowed = &["Localhost", "RuntimeDefault", "Unconfined"];
    if kind.is_empty() {
        let message = "type is required when seccompProfile is set";
        errors.push(FieldError::required(&path.child("type"), message));
    } else {
        check::supported(kind, allowed, &path.child("type"), errors);
    }
    let path = path.child("localhostProfile");
    match localhost {
        Some(file) if kind == "Localhost" => check::descending_path(file, &path, errors),
        Some(_) => {
            let message = "can only be set when seccomp type is Localhost";
            let found = internal_types::printed("*@core.SeccompProfile", Some(profile));
            errors.push(FieldError::invalid(&path, found, message));
        }
        None if kind == "Localhost" => {
            errors.push(FieldError::required(&path, "must be set when seccomp type is Localhost"));
        }
        None => {}
    }
}

fn app_armor(context: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(profile) = context.get("appArmorProfile") else { return };
    let localhost = profile.get("localhostProfile").and_then(Value::as_str);
    let file_path = path.child("localhostProfile");
    match view::text(profile, &["type"]) {
        "Localhost" => {
            let name = localhost.unwrap_or_default();
            if name.trim() != name {
                let message = "must not be padded with whitespace";
                errors.push(FieldError::invalid(&file_path, name, message));
            } else if name.is_empty() {
                errors.push(FieldError::required(&file_path, "must be set when AppArmor type is Localhost"));
            }
            if name.len() > MAX_PROFILE_BYTES {
                errors.push(FieldError::too_long(&file_path, MAX_PROFILE_BYTES));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if let Some(name) = localhost {
                let message = "can only be set when AppArmor type is Localhost";
                errors.push(FieldError::invalid(&file_path, name, message));
            }
        }
        "" => {
            let message = "type is required when appArmorProfile is set";
            errors.push(FieldError::required(&path.child("type"), message));
        }
        kind => {
            let allowed = &["Localhost", "RuntimeDefault", "Unconfined"];
            check::supported(kind, allowed, &path.child("type"), errors);
        }
    }
}

/// Rejects host namespaces in a pod with its own user namespace.
pub(super) fn host_users(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if spec.get("hostUsers") != Some(&Value::Bool(false)) {
        return;
    }
    let message = "when `hostUsers` is false";
    for (field, reported) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if view::is_true(spec, &[field]) {
            errors.push(FieldError::forbidden(&path.child(reported), message));
        }
    }
    container::for_each(spec, path, |container, path| {
        if !view::items(container, &["volumeDevices"]).is_empty() {
            let error = FieldError::forbidden(&path.child("volumeDevices"), message);
            errors.push(error.unless(ratchet::DEVICES_OF_OWN_USERS));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctl_names_are_validated() {
        for good in ["a", "kernel.shm_rmid_forced", "net/ipv4/conf/eth0.1/forwarding", "net.core.somaxconn"] {
            assert!(is_sysctl(good), "{good}");
        }
        for bad in ["", ".", "a..b", "a.B", "-a", "a-", "a b"] {
            assert!(!is_sysctl(bad), "{bad}");
        }
        assert!(is_network_sysctl("net/ipv4/x") && !is_network_sysctl("kernel.sem"));
        assert!(is_ipc_sysctl("kernel.sem") && is_ipc_sysctl("kernel.shmmax"));
    }
}
