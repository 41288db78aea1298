//! Windows pods, and the operating system of pods in general.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::{check, container};
use crate::view;

const MAX_CREDENTIAL_KIB: usize = 64;
const MAX_DOMAIN_BYTES: usize = 256;
const MAX_USER_BYTES: usize = 104;
const NOT_FOR_WINDOWS: &str = "cannot be set for a windows pod";

/// Validates the Windows options of a security context.
pub(super) fn options(context: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(options) = context.get("windowsOptions") else { return };
    if let Some(name) = options.get("gmsaCredentialSpecName").and_then(Value::as_str) {
        check::dns_subdomain(name, &path.child("gmsaCredentialSpecName"), errors);
    }
    if let Some(spec) = options.get("gmsaCredentialSpec").and_then(Value::as_str) {
        let path = path.child("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.push(FieldError::invalid(&path, spec, "gmsaCredentialSpec cannot be an empty string"));
        } else if spec.len() > MAX_CREDENTIAL_KIB * 1024 {
            let message = format!("gmsaCredentialSpec size must be under {MAX_CREDENTIAL_KIB} KiB");
            errors.push(FieldError::invalid(&path, spec, message));
        }
    }
    if let Some(name) = options.get("runAsUserName").and_then(Value::as_str) {
        for message in user_name(name) {
            errors.push(FieldError::invalid(&path.child("runAsUserName"), name, message));
        }
    }
}

fn user_name(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string".to_owned()];
    }
    if name.bytes().any(|byte| byte.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters".to_owned()];
    }
    let mut parts = name.split('\\');
    let (domain, user) = match (parts.next(), parts.next(), parts.next()) {
        (Some(user), None, _) => (None, user),
        (Some(domain), Some(user), None) => (Some(domain), user),
        _ => return vec!["runAsUserName cannot contain more than one backslash".to_owned()],
    };
    let mut messages = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= MAX_DOMAIN_BYTES) {
        messages.push(format!("runAsUserName's Domain length must be under {MAX_DOMAIN_BYTES} characters"));
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns(domain)) {
        messages.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    if user.is_empty() {
        messages.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > MAX_USER_BYTES {
        messages
            .push(format!("runAsUserName's User length must not be longer than {MAX_USER_BYTES} characters"));
    }
    if !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ') {
        messages.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        let message = "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]";
        messages.push(message.to_owned());
    }
    messages
}

fn is_net_bios(domain: &str) -> bool {
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(|c| "\\/:*?\"<>|".contains(c))
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|part| {
        let bytes = part.as_bytes();
        (1..=63).contains(&bytes.len())
            && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    })
}

/// Requires that all containers are host process containers, or none.
pub(super) fn host_process(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let of = |context: Option<&Value>| {
        let context = context?;
        view::at(context, &["windowsOptions", "hostProcess"]).and_then(Value::as_bool)
    };
    let pod = of(spec.get("securityContext"));
    let (mut all, mut host) = (0, 0);
    container::for_each(spec, path, |container, path| {
        let own = of(container.get("securityContext"));
        if let (Some(pod), Some(own)) = (pod, own)
            && pod != own
        {
            let message = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            let path = path.child("securityContext.windowsOptions.hostProcess");
            errors.push(FieldError::invalid(&path, own, message));
        }
        all += 1;
        host += i32::from(own.or(pod) == Some(true));
    });
    if host == 0 {
        return;
    }
    if host != all {
        let message =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(FieldError::invalid(path, "", message));
    }
    if !view::is_true(spec, &["hostNetwork"]) {
        let message = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid(&path.child("hostNetwork"), false, message));
    }
}

/// Rejects fields that do not apply to the pod's operating system.
pub(super) fn operating_system(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(system) = spec.get("os") else { return };
    match check::required(system, "name", &path.child("os"), errors) {
        "" => {}
        "linux" => linux(spec, path, errors),
        "windows" => windows(spec, path, errors),
        other => check::supported(other, &["linux", "windows"], &path.child("os"), errors),
    }
}

fn linux(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let message = "windows options cannot be set for a linux pod";
    if view::at(spec, &["securityContext", "windowsOptions"]).is_some() {
        errors.push(FieldError::forbidden(&path.child("securityContext.windowsOptions"), message));
    }
    container::for_each(spec, path, |container, path| {
        if view::at(container, &["securityContext", "windowsOptions"]).is_some() {
            errors.push(FieldError::forbidden(&path.child("securityContext.windowsOptions"), message));
        }
    });
}

/// Fields at pod level, in the order in which they are reported. The flag is true for fields of the security context,
/// and false for fields beside it.
const POD_FIELDS: &[(&str, bool)] = &[
    ("appArmorProfile", true),
    ("seLinuxOptions", true),
    ("hostUsers", false),
    ("hostPID", false),
    ("hostIPC", false),
    ("seccompProfile", true),
    ("fsGroup", true),
    ("fsGroupChangePolicy", true),
    ("sysctls", true),
    ("shareProcessNamespace", false),
    ("runAsUser", true),
    ("runAsGroup", true),
    ("supplementalGroups", true),
    ("supplementalGroupsPolicy", true),
    ("seLinuxChangePolicy", true),
];

const CONTAINER_FIELDS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

fn windows(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let context = path.child("securityContext");
    for (field, in_context) in POD_FIELDS {
        let value = if *in_context { view::at(spec, &["securityContext", field]) } else { spec.get(field) };
        let is_unset = match value {
            None => true,
            // In these fields, these values equal absent.
            Some(Value::Bool(set)) => !set && matches!(*field, "hostPID" | "hostIPC"),
            Some(Value::Array(items)) => items.is_empty() && *field == "sysctls",
            Some(_) => false,
        };
        if !is_unset {
            let parent = if *in_context { &context } else { path };
            errors.push(FieldError::forbidden(&parent.child(field), NOT_FOR_WINDOWS));
        }
    }
    container::for_each(spec, path, |container, path| {
        let context = path.child("securityContext");
        for field in CONTAINER_FIELDS {
            if view::at(container, &["securityContext", field]).is_some() {
                errors.push(FieldError::forbidden(&context.child(field), NOT_FOR_WINDOWS));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_as_user_names_are_validated() {
        for good in ["ContainerUser", "NT AUTHORITY\\SYSTEM", "example.com\\bob"] {
            assert!(user_name(good).is_empty(), "{good}");
        }
        assert_eq!(user_name(".."), ["runAsUserName's User cannot contain only periods or spaces"]);
        assert_eq!(user_name("a\\b\\c"), ["runAsUserName cannot contain more than one backslash"]);
        assert_eq!(user_name("d\\"), ["runAsUserName's User cannot be empty"]);
    }
}
