//! Checks of the baseline level, which prevent known privilege escalations.

use std::collections::BTreeSet;

use coracle_registry::view;
use serde_json::Value;

use super::super::evaluate::Violation;
use super::super::pod::{Container, Pod, counted, named_containers, quoted, setters};

const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER_ANNOTATION: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Capabilities that containers may add.
const CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

const SELINUX_TYPES: &[&str] = &["", "container_t", "container_init_t", "container_kvm_t"];
const SELINUX_ENGINE_TYPE: &str = "container_engine_t";

/// Sysctls that affect only the pod, with the minor version since which they are allowed.
const SYSCTLS: &[(u32, &str)] = &[
    (0, "kernel.shm_rmid_forced"),
    (0, "net.ipv4.ip_local_port_range"),
    (0, "net.ipv4.tcp_syncookies"),
    (0, "net.ipv4.ping_group_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_keepalive_time"),
    (29, "net.ipv4.tcp_fin_timeout"),
    (29, "net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
];

/// Returns the type of a profile if it is set and neither `RuntimeDefault` nor `Localhost`.
pub(super) fn bad_profile(profile: Option<&Value>) -> Option<&str> {
    let name = view::text(profile?, &["type"]);
    (!matches!(name, "RuntimeDefault" | "Localhost")).then_some(name)
}

/// AppArmor profiles must be the runtime's default or a local one.
pub(in super::super) fn app_armor_profile(pod: &Pod<'_>) -> Option<Violation> {
    let of_pod = bad_profile(pod.at(&["securityContext", "appArmorProfile"]));
    let of =
        |container: &Container<'_>| bad_profile(container.security("appArmorProfile")).map(str::to_owned);
    let containers = pod.containers_that(|container| of(container).is_some());
    let types: BTreeSet<String> = of_pod
        .map(str::to_owned)
        .into_iter()
        .chain(pod.containers().filter_map(|container| of(&container)))
        .collect();
    let annotations: BTreeSet<String> = pod
        .annotations()
        .filter(|(name, _)| name.starts_with(APP_ARMOR_ANNOTATION))
        .filter(|(_, profile)| {
            !matches!(*profile, "" | "runtime/default") && !profile.starts_with("localhost/")
        })
        .map(|(name, profile)| format!("{name}={profile:?}"))
        .collect();
    let mut setters_found: Vec<String> = setters(of_pod.is_some(), &containers).into_iter().collect();
    if !annotations.is_empty() {
        setters_found.push(counted(annotations.len(), "annotation", "annotations").to_owned());
    }
    if setters_found.is_empty() {
        return None;
    }
    let values: Vec<String> = types.into_iter().chain(annotations).collect();
    let reason = counted(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles");
    let detail =
        format!("{} must not set AppArmor profile type to {}", setters_found.join(" and "), quoted(&values));
    Violation::new(reason, detail)
}

/// Only harmless capabilities may be added.
pub(in super::super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let (containers, added) = added_capabilities(pod, CAPABILITIES);
    if containers.is_empty() {
        return None;
    }
    Violation::new("non-default capabilities", forbidden_capabilities(&containers, &added))
}

/// The containers that add other capabilities than the allowed ones, and these capabilities.
pub(super) fn added_capabilities<'a>(pod: &Pod<'a>, allowed: &[&str]) -> (Vec<&'a str>, BTreeSet<&'a str>) {
    let of = |container: &Container<'a>| -> Vec<&'a str> {
        let added = view::items(container.0, &["securityContext", "capabilities", "add"]).iter();
        added.filter_map(Value::as_str).filter(|name| !allowed.contains(name)).collect()
    };
    let containers = pod.containers_that(|container| !of(container).is_empty());
    (containers, pod.containers().flat_map(|container| of(&container)).collect())
}

pub(super) fn forbidden_capabilities(containers: &[&str], added: &BTreeSet<&str>) -> String {
    let containers = named_containers(containers);
    format!("{containers} must not include {} in securityContext.capabilities.add", quoted(added))
}

/// Containers must not be privileged.
pub(in super::super) fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let containers =
        pod.containers_that(|container| container.security("privileged") == Some(&Value::Bool(true)));
    if containers.is_empty() {
        return None;
    }
    let detail = format!("{} must not set securityContext.privileged=true", named_containers(&containers));
    Violation::new("privileged", detail)
}

/// `procMount` must be the default, which masks parts of `/proc`.
pub(in super::super) fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let of = |container: &Container<'_>| {
        let mount = container.security("procMount").and_then(Value::as_str);
        mount.filter(|mount| *mount != "Default").map(str::to_owned)
    };
    let containers = pod.containers_that(|container| of(container).is_some());
    if containers.is_empty() {
        return None;
    }
    let mounts: BTreeSet<String> = pod.containers().filter_map(|container| of(&container)).collect();
    let containers = named_containers(&containers);
    Violation::new(
        "procMount",
        format!("{containers} must not set securityContext.procMount to {}", quoted(mounts)),
    )
}

/// As [`proc_mount`], but allows everything in a user namespace of the pod's own.
pub(in super::super) fn proc_mount_of_own_users(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { proc_mount(pod) }
}

pub(in super::super) fn selinux_options(pod: &Pod<'_>) -> Option<Violation> {
    selinux(pod, SELINUX_TYPES)
}

pub(in super::super) fn selinux_options_with_engine(pod: &Pod<'_>) -> Option<Violation> {
    selinux(pod, &[SELINUX_TYPES, &[SELINUX_ENGINE_TYPE]].concat())
}

/// Only the SELinux types for containers are allowed, and no user or role.
fn selinux(pod: &Pod<'_>, allowed: &[&str]) -> Option<Violation> {
    let is_bad = |options: &Value| {
        !allowed.contains(&view::text(options, &["type"]))
            || !view::text(options, &["user"]).is_empty()
            || !view::text(options, &["role"]).is_empty()
    };
    let of_pod = pod.at(&["securityContext", "seLinuxOptions"]);
    let containers =
        pod.containers_that(|container| container.security("seLinuxOptions").is_some_and(is_bad));
    let setters = setters(of_pod.is_some_and(is_bad), &containers)?;
    let of_containers = pod.containers().filter_map(|container| container.security("seLinuxOptions"));
    let all: Vec<&Value> = of_pod.into_iter().chain(of_containers).collect();
    let types: BTreeSet<&str> = all
        .iter()
        .map(|options| view::text(options, &["type"]))
        .filter(|name| !allowed.contains(name))
        .collect();
    let mut wrong = Vec::new();
    if !types.is_empty() {
        wrong.push(format!("{} {}", counted(types.len(), "type", "types"), quoted(types)));
    }
    for field in ["user", "role"] {
        if all.iter().any(|options| !view::text(options, &[field]).is_empty()) {
            wrong.push(format!("{field} may not be set"));
        }
    }
    let detail = format!("{setters} set forbidden securityContext.seLinuxOptions: {}", wrong.join("; "));
    Violation::new("seLinuxOptions", detail)
}

/// Seccomp annotations, which preceded the fields, must name an allowed profile.
pub(in super::super) fn seccomp_annotations(pod: &Pod<'_>) -> Option<Violation> {
    let names: BTreeSet<String> = pod
        .containers()
        .map(|container| format!("{SECCOMP_CONTAINER_ANNOTATION}{}", container.name()))
        .chain([SECCOMP_ANNOTATION.to_owned()])
        .collect();
    let forbidden: BTreeSet<String> = pod
        .annotations()
        .filter(|(name, _)| names.contains(*name))
        .filter(|(_, profile)| {
            !matches!(*profile, "runtime/default" | "docker/default") && !profile.starts_with("localhost/")
        })
        .map(|(name, profile)| format!("{name}={profile:?}"))
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    let noun = counted(forbidden.len(), "annotation", "annotations");
    let listed: Vec<String> = forbidden.into_iter().collect();
    Violation::new("seccompProfile", format!("forbidden {noun} {}", listed.join(", ")))
}

/// Seccomp profiles, if set, must be the runtime's default or a local one.
pub(in super::super) fn seccomp_profile(pod: &Pod<'_>) -> Option<Violation> {
    let of_pod = bad_profile(pod.at(&["securityContext", "seccompProfile"]));
    let of = |container: &Container<'_>| bad_profile(container.security("seccompProfile")).map(str::to_owned);
    let containers = pod.containers_that(|container| of(container).is_some());
    let setters = setters(of_pod.is_some(), &containers)?;
    let types: BTreeSet<String> = of_pod
        .map(str::to_owned)
        .into_iter()
        .chain(pod.containers().filter_map(|container| of(&container)))
        .collect();
    let detail = format!("{setters} must not set securityContext.seccompProfile.type to {}", quoted(types));
    Violation::new("seccompProfile", detail)
}

pub(in super::super) fn sysctls(pod: &Pod<'_>) -> Option<Violation> {
    sysctls_as_of(0, pod)
}

pub(in super::super) fn sysctls_since_27(pod: &Pod<'_>) -> Option<Violation> {
    sysctls_as_of(27, pod)
}

pub(in super::super) fn sysctls_since_29(pod: &Pod<'_>) -> Option<Violation> {
    sysctls_as_of(29, pod)
}

pub(in super::super) fn sysctls_since_32(pod: &Pod<'_>) -> Option<Violation> {
    sysctls_as_of(32, pod)
}

/// Only sysctls that affect just the pod are allowed.
fn sysctls_as_of(minor: u32, pod: &Pod<'_>) -> Option<Violation> {
    let is_allowed = |name: &str| SYSCTLS.iter().any(|(since, allowed)| *since <= minor && *allowed == name);
    let forbidden: Vec<&str> = view::items(pod.spec, &["securityContext", "sysctls"])
        .iter()
        .map(|sysctl| view::text(sysctl, &["name"]))
        .filter(|name| !is_allowed(name))
        .collect();
    if forbidden.is_empty() { None } else { Violation::new("forbidden sysctls", forbidden.join(", ")) }
}
