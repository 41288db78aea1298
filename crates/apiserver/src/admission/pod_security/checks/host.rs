//! Checks of resources that a pod shares with its node.

use std::collections::BTreeSet;

use coracle_registry::view;
use serde_json::Value;

use super::super::evaluate::Violation;
use super::super::pod::{Container, Pod, counted, named_containers, quoted, setters};

/// Host namespaces are forbidden.
pub(in super::super) fn namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|field| view::is_true(pod.spec, &[field]))
        .map(|field| format!("{field}=true"))
        .collect();
    if shared.is_empty() { None } else { Violation::new("host namespaces", shared.join(", ")) }
}

/// `hostPath` volumes are forbidden.
pub(in super::super) fn path_volumes(pod: &Pod<'_>) -> Option<Violation> {
    let volumes: Vec<&str> = view::items(pod.spec, &["volumes"])
        .iter()
        .filter(|volume| view::at(volume, &["hostPath"]).is_some())
        .map(|volume| view::text(volume, &["name"]))
        .collect();
    if volumes.is_empty() {
        return None;
    }
    let detail = format!("{} {}", counted(volumes.len(), "volume", "volumes"), quoted(&volumes));
    Violation::new("hostPath volumes", detail)
}

/// Host ports are forbidden.
pub(in super::super) fn ports(pod: &Pod<'_>) -> Option<Violation> {
    let of = |container: &Container<'_>| -> Vec<i64> {
        let ports = view::items(container.0, &["ports"]).iter();
        ports.filter_map(|port| view::integer(port, &["hostPort"])).filter(|port| *port != 0).collect()
    };
    let containers = pod.containers_that(|container| !of(container).is_empty());
    if containers.is_empty() {
        return None;
    }
    // Sorted as text.
    let ports: BTreeSet<String> =
        pod.containers().flat_map(|container| of(&container)).map(|port| port.to_string()).collect();
    let detail = format!(
        "{} {} {} {}",
        named_containers(&containers),
        counted(containers.len(), "uses", "use"),
        counted(ports.len(), "hostPort", "hostPorts"),
        ports.into_iter().collect::<Vec<_>>().join(", ")
    );
    Violation::new("hostPort", detail)
}

/// Probes and lifecycle hooks must not name a host.
pub(in super::super) fn probes_and_lifecycle(pod: &Pod<'_>) -> Option<Violation> {
    let names: BTreeSet<&str> =
        pod.containers_that(|container| !hosts(container).is_empty()).into_iter().collect();
    if names.is_empty() {
        return None;
    }
    let hosts: BTreeSet<&str> = pod.containers().flat_map(|container| hosts(&container)).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let detail = format!(
        "{} {} {} {}",
        named_containers(&names),
        counted(names.len(), "uses", "use"),
        counted(hosts.len(), "probe or lifecycle host", "probe or lifecycle hosts"),
        quoted(hosts)
    );
    Violation::new("probe or lifecycle host", detail)
}

/// The hosts in the probes and lifecycle hooks of a container.
fn hosts<'a>(container: &Container<'a>) -> Vec<&'a str> {
    let callers: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    callers
        .into_iter()
        .filter_map(|path| view::at(container.0, path))
        .flat_map(|caller| {
            [view::text(caller, &["httpGet", "host"]), view::text(caller, &["tcpSocket", "host"])]
        })
        .filter(|host| !host.is_empty())
        .collect()
}

/// Windows HostProcess containers are forbidden.
pub(in super::super) fn windows_process(pod: &Pod<'_>) -> Option<Violation> {
    let is_host =
        |options: Option<&Value>| options.is_some_and(|options| view::is_true(options, &["hostProcess"]));
    let containers = pod.containers_that(|container| is_host(container.security("windowsOptions")));
    let setters = setters(is_host(pod.at(&["securityContext", "windowsOptions"])), &containers)?;
    let detail = format!("{setters} must not set securityContext.windowsOptions.hostProcess=true");
    Violation::new("hostProcess", detail)
}
