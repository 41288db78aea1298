//! Backends of a service: endpoints for its pods, grouped by ports.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::service_pods::{addresses, can_serve, hostname, target_port};
use crate::view::{
    AddressType, Endpoint, EndpointConditions, EndpointPort, Node, ObjectReference, Pod, Service, ServicePort,
};

/// Label with the zone of a node.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// Identity of an endpoint: its addresses, host name and target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndpointKey {
    addresses: Vec<Box<str>>,
    hostname: Option<Box<str>>,
    target: Option<(Box<str>, Box<str>)>,
}

impl EndpointKey {
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        let mut addresses = endpoint.addresses.to_vec();
        addresses.sort_unstable();
        let hostname = endpoint.hostname.clone().filter(|hostname| !hostname.is_empty());
        let target = endpoint.target_ref.as_ref();
        Self { addresses, hostname, target: target.map(|pod| (pod.namespace.clone(), pod.name.clone())) }
    }
}

/// Endpoints by identity.
pub(crate) type EndpointSet = BTreeMap<EndpointKey, Endpoint>;

/// Sorted ports, to find slices with the same ports.
pub(crate) type PortKey = Vec<EndpointPort>;

/// The sorted ports.
pub(crate) fn port_key(ports: &[EndpointPort]) -> PortKey {
    let mut key = ports.to_vec();
    key.sort_unstable();
    key
}

/// Endpoints with the same ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// In the order of the service.
    pub(crate) ports: Vec<EndpointPort>,
    pub(crate) endpoints: EndpointSet,
}

/// All backends of a service with one address type.
#[derive(Debug, Default)]
pub(super) struct Backends {
    pub(super) groups: BTreeMap<PortKey, Group>,
    /// Pods that are omitted because their node is unknown, as names of pod and node.
    pub(super) without_node: Vec<(Box<str>, Box<str>)>,
}

/// Computes the backends of a service.
pub(super) fn backends(
    service: &Service,
    pods: &[Arc<Pod>],
    node_of: &dyn Fn(&str) -> Option<Arc<Node>>,
    address_type: AddressType,
) -> Backends {
    let mut backends = Backends::default();
    for pod in pods.iter().filter(|pod| can_serve(pod, true)) {
        let ports = ports(service, pod);
        let group = backends.groups.entry(port_key(&ports)).or_default();
        group.ports = ports;
        let node = node_of(&pod.spec.node_name);
        // A service that publishes unready addresses publishes this one, too.
        if node.is_none() && !service.spec.publish_not_ready_addresses {
            backends.without_node.push((pod.metadata.name().into(), pod.spec.node_name.clone()));
            continue;
        }
        let endpoint = endpoint(service, pod, node.as_deref(), address_type);
        if !endpoint.addresses.is_empty() {
            group.endpoints.insert(EndpointKey::of(&endpoint), endpoint);
        }
    }
    backends
}

fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let found = |port: &ServicePort| {
        Some(EndpointPort {
            name: port.name.clone(),
            protocol: port.protocol.clone(),
            port: Some(target_port(pod, port)?),
            app_protocol: port.app_protocol.clone(),
        })
    };
    service.spec.ports.iter().filter_map(found).collect()
}

fn endpoint(service: &Service, pod: &Pod, node: Option<&Node>, address_type: AddressType) -> Endpoint {
    let (serving, terminating) = (pod.is_ready(), pod.metadata.is_terminating());
    let conditions = EndpointConditions {
        ready: Some(service.spec.publish_not_ready_addresses || serving && !terminating),
        serving: Some(serving),
        terminating: Some(terminating),
    };
    Endpoint {
        addresses: addresses(pod)
            .filter(|ip| type_of(ip) == address_type)
            .map(|ip| ip.to_string().into())
            .collect(),
        conditions,
        hostname: hostname(pod, service).map(Into::into),
        target_ref: Some(Box::new(ObjectReference::to_pod(pod))),
        node_name: Some(pod.spec.node_name.clone()).filter(|name| !name.is_empty()),
        zone: node.and_then(zone).map(Into::into),
        ..Endpoint::default()
    }
}

/// Type of an address.
pub(crate) fn type_of(ip: &IpAddr) -> AddressType {
    if ip.is_ipv4() { AddressType::IPv4 } else { AddressType::IPv6 }
}

/// Address types of a service. The API server always sets the IP families; without them the family of the cluster IP
/// counts, or both.
pub(super) fn address_types(service: &Service) -> Vec<AddressType> {
    let of_family = |family: &str| match family {
        "IPv4" => Some(AddressType::IPv4),
        "IPv6" => Some(AddressType::IPv6),
        _ => None,
    };
    let types: Vec<_> = service.spec.ip_families.iter().filter_map(|family| of_family(family)).collect();
    if !types.is_empty() {
        return types;
    }
    match service.spec.cluster_ip.parse::<IpAddr>() {
        Ok(ip) => vec![type_of(&ip)],
        Err(_) => vec![AddressType::IPv4, AddressType::IPv6],
    }
}

/// Zone of a node.
pub(super) fn zone(node: &Node) -> Option<&str> {
    node.metadata.labels.get(ZONE_LABEL).filter(|zone| !zone.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(service: &Value, pod: &Value, address_type: AddressType) -> Backends {
        let node = json!({"metadata": {"name": "n1", "labels": {ZONE_LABEL: "a"}}});
        let node: Arc<Node> = Arc::new(serde_json::from_value(node).unwrap());
        let service = serde_json::from_value(service.clone()).unwrap();
        let pods = [Arc::new(serde_json::from_value(pod.clone()).unwrap())];
        backends(&service, &pods, &|name| (name == "n1").then(|| Arc::clone(&node)), address_type)
    }

    fn service() -> Value {
        json!({"metadata": {"name": "s", "namespace": "n"}, "spec": {
            "ports": [{"name": "b", "protocol": "TCP", "port": 80, "targetPort": "web", "appProtocol": "http"},
                {"name": "a", "protocol": "TCP", "port": 81, "targetPort": 8081}]}})
    }

    fn pod() -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"nodeName": "n1", "hostname": "h", "subdomain": "s", "containers": [
                {"name": "c", "ports": [{"name": "web", "containerPort": 80, "protocol": "TCP"}]}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1",
                "podIPs": [{"ip": "10.0.0.1"}, {"ip": "FD00::0001"}],
                "conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    fn only(backends: &Backends) -> (&Group, Option<&Endpoint>) {
        assert_eq!(backends.groups.len(), 1);
        let group = backends.groups.values().next().unwrap();
        (group, group.endpoints.values().next())
    }

    #[test]
    fn pod_becomes_an_endpoint() {
        let backends = of(&service(), &pod(), AddressType::IPv4);
        let (group, endpoint) = only(&backends);
        assert_eq!(
            serde_json::to_value(endpoint.unwrap()).unwrap(),
            json!({
                "addresses": ["10.0.0.1"],
                "conditions": {"ready": true, "serving": true, "terminating": false},
                "hostname": "h", "nodeName": "n1", "zone": "a",
                "targetRef": {"kind": "Pod", "namespace": "n", "name": "p", "uid": "u"},
            })
        );
        let ports = json!([
            {"name": "b", "protocol": "TCP", "port": 80, "appProtocol": "http"},
            {"name": "a", "protocol": "TCP", "port": 8081},
        ]);
        assert_eq!(serde_json::to_value(&group.ports).unwrap(), ports);
        let six = of(&service(), &pod(), AddressType::IPv6);
        assert_eq!(&*only(&six).1.unwrap().addresses[0], "fd00::1");
    }

    #[test]
    fn endpoint_conditions_reflect_the_pod() {
        // Pod is ready, pod is terminating, service publishes unready addresses.
        let cases = [
            ((true, false, false), (true, true, false)),
            ((false, false, false), (false, false, false)),
            ((true, true, false), (false, true, true)),
            ((false, true, true), (true, false, true)),
        ];
        for ((is_ready, going, publish), (ready, serving, terminating)) in cases {
            let (mut pod, mut service) = (pod(), service());
            pod["status"]["conditions"][0]["status"] = if is_ready { "True" } else { "False" }.into();
            if going {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            service["spec"]["publishNotReadyAddresses"] = publish.into();
            let backends = of(&service, &pod, AddressType::IPv4);
            let expected = EndpointConditions {
                ready: Some(ready),
                serving: Some(serving),
                terminating: Some(terminating),
            };
            assert_eq!(only(&backends).1.unwrap().conditions, expected);
        }
    }

    #[test]
    fn pods_on_unknown_nodes_are_omitted_and_reported() {
        let (mut pod, mut service) = (pod(), service());
        pod["spec"]["nodeName"] = "n2".into();
        let backends = of(&service, &pod, AddressType::IPv4);
        assert_eq!(backends.without_node, [("p".into(), "n2".into())]);
        assert!(only(&backends).1.is_none());
        service["spec"]["publishNotReadyAddresses"] = true.into();
        let backends = of(&service, &pod, AddressType::IPv4);
        assert!(backends.without_node.is_empty());
        assert_eq!(only(&backends).1.unwrap().zone, None);
    }

    #[test]
    fn ip_families_select_address_types() {
        let types = |spec: Value| address_types(&serde_json::from_value(json!({"spec": spec})).unwrap());
        assert_eq!(types(json!({"ipFamilies": ["IPv6", "IPv4"]})), [AddressType::IPv6, AddressType::IPv4]);
        assert_eq!(types(json!({"clusterIP": "fd00::1"})), [AddressType::IPv6]);
        assert_eq!(types(json!({"clusterIP": "None"})), [AddressType::IPv4, AddressType::IPv6]);
    }
}
