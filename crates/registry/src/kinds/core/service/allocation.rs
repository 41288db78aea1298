//! Cluster IPs and node ports that a write to a service must allocate.
//!
//! These functions only compute requests and set results; the pools are elsewhere.
//! They rely on preparation, which makes the singular and the plural of addresses agree and
//! carries over what was allocated, and on families having been decided.

use serde_json::Value;

use super::{families, spec};
use crate::view;

/// Request for a cluster IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedClusterIp {
    /// Index in `clusterIPs`.
    pub(super) index: usize,
    /// `IPv4` or `IPv6`.
    pub(super) family: String,
    /// The address that the client requests; `None` for any.
    pub(super) requested: Option<String>,
}

/// Request for a node port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedNodePort {
    /// The field that the port is for.
    pub(super) target: PortTarget,
    /// The port that the client requests; `None` for any.
    pub(super) requested: Option<i64>,
}

/// The field that a node port is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PortTarget {
    /// These indexes of the service's ports; several if they differ only in the protocol.
    Ports(Vec<usize>),
    /// `healthCheckNodePort`.
    HealthCheck,
}

/// Returns the cluster IPs that a write to a service must allocate.
pub(super) fn wanted_cluster_ips(service: &Value, old: Option<&Value>) -> Vec<WantedClusterIp> {
    if spec::is_external_name(service) || spec::is_headless(service) {
        return Vec::new();
    }
    let Some(old) = old.filter(|old| !spec::is_external_name(old)) else {
        return missing_from(service, 0);
    };
    if spec::is_headless(old) || families::keeps_dual_stack(service, old) {
        return Vec::new();
    }
    match (spec::texts(old, "ipFamilies").len(), spec::texts(service, "ipFamilies").len()) {
        (1, 2) => missing_from(service, 1),
        _ => Vec::new(),
    }
}

fn missing_from(service: &Value, start: usize) -> Vec<WantedClusterIp> {
    let ips = spec::texts(service, "clusterIPs");
    let families = spec::texts(service, "ipFamilies").into_iter().enumerate().skip(start);
    families
        .map(|(index, family)| WantedClusterIp {
            index,
            family: family.to_owned(),
            requested: ips.get(index).filter(|ip| !ip.is_empty()).map(|ip| (*ip).to_owned()),
        })
        .collect()
}

/// Sets a cluster IP; indexes must be set in ascending order.
pub(super) fn set_cluster_ip(service: &mut Value, index: usize, ip: &str) {
    let mut ips: Vec<String> = spec::texts(service, "clusterIPs").into_iter().map(str::to_owned).collect();
    match ips.get_mut(index) {
        Some(target) => ip.clone_into(target),
        None => ips.push(ip.to_owned()),
    }
    spec::set(service, "clusterIPs", ips);
    if index == 0 {
        spec::set(service, "clusterIP", ip);
    }
}

/// Returns the node ports that a write to a service must allocate.
pub(super) fn wanted_node_ports(service: &Value, old: Option<&Value>) -> Vec<WantedNodePort> {
    let mut wanted = match old {
        _ if !spec::uses_node_ports(service) => Vec::new(),
        None => for_new_ports(service),
        Some(old) => for_changed_ports(service, &spec::node_ports(old)),
    };
    if spec::needs_health_check(service) && !old.is_some_and(spec::needs_health_check) {
        let requested = Some(spec::health_check_port(service)).filter(|port| *port != 0);
        wanted.push(WantedNodePort { target: PortTarget::HealthCheck, requested });
    }
    wanted
}

/// Ports with the same number share a node port, so that one number serves several protocols.
fn for_new_ports(service: &Value) -> Vec<WantedNodePort> {
    let ports = spec::ports(service);
    let number = |port: &Value| view::integer(port, &["port"]).unwrap_or(0);
    let mut wanted: Vec<(i64, Vec<usize>, Option<i64>)> = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let requested_port = Some(spec::node_port(port)).filter(|port| *port != 0);
        if requested_port.is_none() && !spec::allocates_node_ports(service) {
            continue;
        }
        let shared = wanted.iter().position(|(shared, ..)| *shared == number(port));
        match shared.map(|shared| &mut wanted[shared]) {
            None => {
                let same_number = ports.iter().filter(|other| number(other) == number(port));
                let requested = same_number.map(spec::node_port).find(|port| *port != 0);
                wanted.push((number(port), vec![index], requested));
            }
            Some((_, indexes, _)) if requested_port.is_none() => indexes.push(index),
            Some((_, _, requested)) if *requested == requested_port => {}
            Some(_) => wanted.push((number(port), vec![index], requested_port)),
        }
    }
    wanted
        .into_iter()
        .map(|(_, indexes, requested)| WantedNodePort { target: PortTarget::Ports(indexes), requested })
        .collect()
}

fn for_changed_ports(service: &Value, held: &[i64]) -> Vec<WantedNodePort> {
    let mut wanted: Vec<WantedNodePort> = Vec::new();
    for (index, port) in spec::ports(service).iter().enumerate() {
        let requested = match spec::node_port(port) {
            0 if !spec::allocates_node_ports(service) => continue,
            0 => None,
            port if held.contains(&port) || wanted.iter().any(|wanted| wanted.requested == Some(port)) => {
                continue;
            }
            port => Some(port),
        };
        wanted.push(WantedNodePort { target: PortTarget::Ports(vec![index]), requested });
    }
    wanted
}

/// Sets a node port.
pub(super) fn set_node_port(service: &mut Value, target: &PortTarget, node_port: i64) {
    match target {
        PortTarget::HealthCheck => spec::set(service, "healthCheckNodePort", node_port),
        PortTarget::Ports(indexes) => {
            for (index, port) in spec::ports_mut(service).iter_mut().enumerate() {
                if indexes.contains(&index) {
                    port["nodePort"] = node_port.into();
                }
            }
        }
    }
}

/// Returns the cluster IPs that a service holds, to be released with it.
pub(super) fn held_cluster_ips(service: &Value) -> Vec<String> {
    if spec::is_external_name(service) || spec::is_headless(service) {
        return Vec::new();
    }
    spec::texts(service, "clusterIPs").into_iter().map(str::to_owned).collect()
}

/// Returns the node ports that a service holds, to be released with it.
pub(super) fn held_node_ports(service: &Value) -> Vec<i64> {
    let mut held = spec::node_ports(service);
    if spec::needs_health_check(service) {
        held.extend(Some(spec::health_check_port(service)).filter(|port| *port > 0));
    }
    held
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(spec: Value) -> Value {
        json!({"spec": spec})
    }

    fn any(indexes: &[usize]) -> WantedNodePort {
        WantedNodePort { target: PortTarget::Ports(indexes.to_vec()), requested: None }
    }

    fn requested_port(index: usize, port: i64) -> WantedNodePort {
        WantedNodePort { target: PortTarget::Ports(vec![index]), requested: Some(port) }
    }

    #[test]
    fn new_service_wants_an_address_of_each_family() {
        let mut new = service(json!({"ipFamilies": ["IPv4", "IPv6"], "clusterIPs": ["10.0.0.1"]}));
        let wanted = wanted_cluster_ips(&new, None);
        let found: Vec<_> = wanted.iter().map(|wanted| wanted.requested.as_deref()).collect();
        assert_eq!(found, [Some("10.0.0.1"), None]);
        set_cluster_ip(&mut new, 0, "10.0.0.1");
        set_cluster_ip(&mut new, 1, "fd00::1");
        assert_eq!(new["spec"]["clusterIP"], "10.0.0.1");
        assert_eq!(new["spec"]["clusterIPs"], json!(["10.0.0.1", "fd00::1"]));
        for none in [json!({"type": "ExternalName"}), json!({"clusterIPs": ["None"], "ipFamilies": ["IPv4"]})]
        {
            assert!(wanted_cluster_ips(&service(none), None).is_empty());
        }
    }

    #[test]
    fn wanted_addresses_depend_on_families_and_type() {
        let one = service(json!({"clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"]}));
        let two = service(json!({"clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"]}));
        let external = service(json!({"type": "ExternalName"}));
        assert_eq!(wanted_cluster_ips(&two, Some(&one))[0].index, 1);
        assert_eq!(wanted_cluster_ips(&one, Some(&two)), []);
        assert_eq!(wanted_cluster_ips(&external, Some(&two)), []);
        assert_eq!(wanted_cluster_ips(&one, Some(&external)).len(), 1);
        assert_eq!(wanted_cluster_ips(&one, Some(&one)), []);
    }

    #[test]
    fn ports_with_the_same_number_share_a_node_port() {
        let ports = json!([{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}, {"port": 80, "nodePort": 30080}]);
        let mut new = service(json!({"type": "NodePort", "ports": ports}));
        let wanted = wanted_node_ports(&new, None);
        assert_eq!(wanted, [any(&[0, 1]), requested_port(2, 30080)]);
        set_node_port(&mut new, &wanted[0].target, 30053);
        assert_eq!(spec::node_ports(&new), [30053, 30053, 30080]);
    }

    #[test]
    fn wanted_node_ports_depend_on_ports_and_type() {
        let old = service(
            json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30001}, {"port": 2, "nodePort": 30002}]}),
        );
        let new = service(
            json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30001}, {"port": 3}, {"port": 4, "nodePort": 30004}]}),
        );
        let wanted = wanted_node_ports(&new, Some(&old));
        assert_eq!(wanted, [any(&[1]), requested_port(2, 30004)]);
        let plain = service(json!({"type": "ClusterIP", "ports": [{"port": 1}]}));
        assert_eq!(wanted_node_ports(&plain, Some(&old)), []);
    }

    #[test]
    fn local_load_balancer_wants_a_health_check_port() {
        let local = service(
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30009}),
        );
        let cluster = service(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Cluster"}));
        let health_check = WantedNodePort { target: PortTarget::HealthCheck, requested: Some(30009) };
        assert_eq!(wanted_node_ports(&local, None), [health_check]);
        assert_eq!(wanted_node_ports(&cluster, Some(&local)), []);
        assert_eq!(held_node_ports(&local), [30009]);
        assert!(held_node_ports(&cluster).is_empty());
    }
}
