//! Checks of the restricted level, which enforces hardening best practices.

use std::collections::BTreeSet;

use coracle_registry::view;
use serde_json::Value;

use super::super::evaluate::Violation;
use super::super::pod::{Pod, counted, named_containers, quoted, setters};
use super::baseline::{self, added_capabilities, bad_profile, forbidden_capabilities};

/// Allowed volume types: those that cannot reach beyond the cluster.
const VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Forbidden volume types. If a volume had several, the first would be reported.
const FORBIDDEN_VOLUMES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

/// `allowPrivilegeEscalation` must be false.
pub(in super::super) fn privilege_escalation(pod: &Pod<'_>) -> Option<Violation> {
    let containers = pod.containers_that(|container| {
        container.security("allowPrivilegeEscalation") != Some(&Value::Bool(false))
    });
    if containers.is_empty() {
        return None;
    }
    let containers = named_containers(&containers);
    let detail = format!("{containers} must set securityContext.allowPrivilegeEscalation=false");
    Violation::new("allowPrivilegeEscalation != false", detail)
}

/// The field does not exist on Windows.
pub(in super::super) fn privilege_escalation_not_windows(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_for_windows() { None } else { privilege_escalation(pod) }
}

/// All capabilities must be dropped; only `NET_BIND_SERVICE` may be added.
pub(in super::super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let keeping = pod.containers_that(|container| {
        let dropped = view::items(container.0, &["securityContext", "capabilities", "drop"]);
        !dropped.iter().any(|name| name == "ALL")
    });
    let (adding, added) = added_capabilities(pod, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let containers = named_containers(&keeping);
        details.push(format!("{containers} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !adding.is_empty() {
        details.push(forbidden_capabilities(&adding, &added));
    }
    if details.is_empty() { None } else { Violation::new("unrestricted capabilities", details.join("; ")) }
}

/// Capabilities do not exist on Windows.
pub(in super::super) fn capabilities_not_windows(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_for_windows() { None } else { capabilities(pod) }
}

/// Only volume types that cannot reach beyond the cluster are allowed.
pub(in super::super) fn volume_types(pod: &Pod<'_>) -> Option<Violation> {
    let has = |volume: &Value, kinds: &[&'static str]| {
        kinds.iter().copied().find(|kind| view::at(volume, &[kind]).is_some())
    };
    let bad: Vec<&Value> =
        view::items(pod.spec, &["volumes"]).iter().filter(|volume| has(volume, VOLUMES).is_none()).collect();
    if bad.is_empty() {
        return None;
    }
    let kinds: BTreeSet<&str> =
        bad.iter().map(|volume| has(volume, FORBIDDEN_VOLUMES).unwrap_or("unknown")).collect();
    let detail = format!(
        "{} {} {} {} {}",
        counted(bad.len(), "volume", "volumes"),
        quoted(bad.iter().map(|volume| view::text(volume, &["name"]))),
        counted(bad.len(), "uses", "use"),
        counted(kinds.len(), "restricted volume type", "restricted volume types"),
        quoted(kinds)
    );
    Violation::new("restricted volume types", detail)
}

/// `runAsNonRoot` must be true.
pub(in super::super) fn run_as_non_root(pod: &Pod<'_>) -> Option<Violation> {
    let reason = "runAsNonRoot != true";
    let of_pod = pod.at(&["securityContext", "runAsNonRoot"]).and_then(Value::as_bool);
    let refusing =
        pod.containers_that(|container| container.security("runAsNonRoot") == Some(&Value::Bool(false)));
    if let Some(setters) = setters(of_pod == Some(false), &refusing) {
        return Violation::new(reason, format!("{setters} must not set securityContext.runAsNonRoot=false"));
    }
    let silent = pod.containers_that(|container| container.security("runAsNonRoot").is_none());
    if of_pod == Some(true) || silent.is_empty() {
        return None;
    }
    let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", named_containers(&silent));
    Violation::new(reason, detail)
}

/// In a user namespace of the pod's own, root is not root on the node.
pub(in super::super) fn run_as_non_root_or_own_users(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { run_as_non_root(pod) }
}

/// `runAsUser` must not be 0.
pub(in super::super) fn run_as_user(pod: &Pod<'_>) -> Option<Violation> {
    let is_root = |user: Option<&Value>| user.and_then(Value::as_i64) == Some(0);
    let containers = pod.containers_that(|container| is_root(container.security("runAsUser")));
    let setters = setters(is_root(pod.at(&["securityContext", "runAsUser"])), &containers)?;
    Violation::new("runAsUser=0", format!("{setters} must not set runAsUser=0"))
}

/// In a user namespace of the pod's own, root is not root on the node.
pub(in super::super) fn run_as_user_or_own_users(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { run_as_user(pod) }
}

/// A seccomp profile must be set, to the runtime's default or a local one.
pub(in super::super) fn seccomp_profile(pod: &Pod<'_>) -> Option<Violation> {
    if let Some(violation) = baseline::seccomp_profile(pod) {
        return Some(violation);
    }
    let of_pod = pod.at(&["securityContext", "seccompProfile"]);
    if of_pod.is_some() && bad_profile(of_pod).is_none() {
        return None;
    }
    let silent = pod.containers_that(|container| container.security("seccompProfile").is_none());
    if silent.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        named_containers(&silent)
    );
    Violation::new("seccompProfile", detail)
}

/// Seccomp does not exist on Windows.
pub(in super::super) fn seccomp_profile_not_windows(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_for_windows() { None } else { seccomp_profile(pod) }
}
