//! Pods of services, for the controllers of Endpoints and EndpointSlices.

mod trigger_time;

use std::net::IpAddr;
use std::sync::Arc;

use coracle_meta::name::parse_ip_sloppy;
use coracle_runtime::informer::Store;
use coracle_runtime::{Change, ObjectKey};

use crate::view::{Container, Pod, Service, ServicePort, TargetPort};
pub(crate) use trigger_time::{ANNOTATION as TRIGGER_TIME_ANNOTATION, TriggerTimes};

/// Pods that a service selects, ordered by name.
pub(crate) fn selected_pods(service: &Service, key: &ObjectKey, pods: &Store<Pod>) -> Vec<Arc<Pod>> {
    let mut inside = pods.in_namespace(key.cluster(), key.namespace());
    inside.retain(|pod| service.selects(&pod.metadata.labels));
    inside
}

/// Services to sync after a change of a pod.
pub(crate) fn services_of(change: &Change<Pod>, services: &Store<Service>) -> Vec<ObjectKey> {
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && !is_relevant(old, new)
    {
        return Vec::new();
    }
    let selects = |service: &Service| {
        let selected = |pod: &Arc<Pod>| service.selects(&pod.metadata.labels);
        change.old.as_ref().is_some_and(selected) || change.new.as_ref().is_some_and(selected)
    };
    let (cluster, namespace) = (change.key.cluster(), change.key.namespace());
    let beside = services.in_namespace(cluster, namespace).into_iter();
    let key =
        |service: Arc<Service>| ObjectKey::namespaced(cluster.clone(), namespace, service.metadata.name());
    beside.filter(|service| selects(service)).map(key).collect()
}

/// True if fields changed that matter to services.
fn is_relevant(old: &Pod, new: &Pod) -> bool {
    let state = |pod: &Pod| (pod.metadata.is_terminating(), pod.is_ready(), pod.is_finished());
    let addresses = |pod: &Pod| pod.status.pod_ips.iter().map(|ip| ip.ip.clone()).collect::<Vec<_>>();
    state(old) != state(new)
        || old.metadata.uid() != new.metadata.uid()
        || old.metadata.labels != new.metadata.labels
        || addresses(old) != addresses(new)
        || (&old.spec.hostname, &old.spec.subdomain) != (&new.spec.hostname, &new.spec.subdomain)
}

/// True if the pod may be a backend of a service.
pub(crate) fn can_serve(pod: &Pod, include_terminating: bool) -> bool {
    let has_address = !pod.status.pod_ip.is_empty() || !pod.status.pod_ips.is_empty();
    !pod.is_finished() && has_address && (include_terminating || !pod.metadata.is_terminating())
}

/// Addresses of a pod, in canonical form.
pub(crate) fn addresses(pod: &Pod) -> impl Iterator<Item = IpAddr> {
    pod.status.pod_ips.iter().filter_map(|ip| parse_ip_sloppy(&ip.ip))
}

/// Host name of a pod within a service, if it has one.
pub(crate) fn hostname<'a>(pod: &'a Pod, service: &Service) -> Option<&'a str> {
    let named = !pod.spec.hostname.is_empty() && *pod.spec.subdomain == *service.metadata.name();
    named.then_some(&*pod.spec.hostname)
}

/// Port of a pod that a service port targets; `None` if the pod has no such port.
pub(crate) fn target_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match &port.target_port {
        TargetPort::Number(number) => return Some(*number),
        TargetPort::Name(name) => name,
    };
    let sidecars = pod.spec.init_containers.iter().filter(|container| &*container.restart_policy == "Always");
    let ports = pod.spec.containers.iter().chain(sidecars).flat_map(|container: &Container| &container.ports);
    ports
        .into_iter()
        .find(|candidate| candidate.name == *name && candidate.protocol == port.protocol)
        .map(|found| found.container_port)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(mut change: Value) -> Pod {
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "x"}},
            "spec": {"hostname": "h", "subdomain": "s",
                "containers": [{"name": "c", "ports": [
                    {"name": "web", "containerPort": 80, "protocol": "TCP"},
                    {"name": "dns", "containerPort": 53, "protocol": "UDP"},
                ]}],
                "initContainers": [
                    {"name": "side", "restartPolicy": "Always",
                        "ports": [{"name": "log", "containerPort": 99, "protocol": "TCP"}]},
                    {"name": "once", "ports": [{"name": "once", "containerPort": 1, "protocol": "TCP"}]},
                ]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
                "conditions": [{"type": "Ready", "status": "True"}]},
        });
        for (path, value) in change.as_object_mut().unwrap() {
            *pod.pointer_mut(path).unwrap() = value.take();
        }
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn only_relevant_pod_changes_affect_services() {
        let before = pod(json!({}));
        assert!(!is_relevant(&before, &pod(json!({"/spec/containers/0/name": "other"}))));
        for change in [
            json!({"/metadata/uid": "v"}),
            json!({"/metadata/labels": {"app": "y"}}),
            json!({"/status/conditions/0/status": "False"}),
            json!({"/status/podIPs": []}),
            json!({"/status/phase": "Succeeded"}),
            json!({"/spec/hostname": "other"}),
        ] {
            assert!(is_relevant(&before, &pod(change.clone())), "{change}");
        }
    }

    #[test]
    fn finished_pods_and_pods_without_address_cannot_serve() {
        assert!(can_serve(&pod(json!({})), false));
        assert!(!can_serve(&pod(json!({"/status/podIP": "", "/status/podIPs": []})), true));
        assert!(!can_serve(&pod(json!({"/status/phase": "Failed"})), true));
        let mut terminating = pod(json!({}));
        terminating.metadata.plain.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
        assert!(can_serve(&terminating, true) && !can_serve(&terminating, false));
    }

    #[test]
    fn target_port_matches_name_and_protocol() {
        let found = |target: Value, protocol: &str| {
            let port = json!({"targetPort": target, "protocol": protocol});
            target_port(&pod(json!({})), &serde_json::from_value(port).unwrap())
        };
        assert_eq!(found(json!(7), "TCP"), Some(7));
        assert_eq!(found(json!("web"), "TCP"), Some(80));
        assert_eq!(found(json!("web"), "UDP"), None);
        assert_eq!(found(json!("log"), "TCP"), Some(99), "of a sidecar");
        assert_eq!(found(json!("once"), "TCP"), None, "it has ended by then");
    }

    #[test]
    fn hostname_requires_matching_subdomain() {
        let service = |name: &str| -> Service {
            serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n"}})).unwrap()
        };
        assert_eq!(hostname(&pod(json!({})), &service("s")), Some("h"));
        assert_eq!(hostname(&pod(json!({})), &service("t")), None);
    }
}
