//! What a write to a service needs from the pools of addresses and node ports.
//!
//! These functions only say what is wanted and put in what was found; the pools are elsewhere.
//! On create the order is [`unite_cluster_ips`](super::unite_cluster_ips),
//! [`init_ip_families`](super::init_ip_families), then these; on update
//! [`keep_allocated`](super::keep_allocated) comes first. All of it comes before
//! preparation and validation, as clients may rely on the order of complaints.

use serde_json::Value;

use super::{families, spec};
use crate::view;

/// What to take from a pool and what to give back once the write has succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted<Allocation, Given> {
    /// What to take.
    pub allocate: Vec<Allocation>,
    /// What to give back.
    pub release: Vec<Given>,
}

/// An address that a service needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedClusterIp {
    /// Where in `clusterIPs` it goes.
    pub index: usize,
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// The one that the client asks for; else any.
    pub requested: Option<String>,
}

/// A node port that a service needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedNodePort {
    /// Where it goes.
    pub place: PortPlace,
    /// The one that the client asks for; else any.
    pub requested: Option<i64>,
}

/// Where a node port goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortPlace {
    /// To these of the service's ports; several if they differ only in the protocol.
    Ports(Vec<usize>),
    /// To the health check.
    HealthCheck,
}

/// The addresses that a service needs to become what it is to become.
pub fn wanted_cluster_ips(service: &Value, old: Option<&Value>) -> Wanted<WantedClusterIp, String> {
    let mut wanted = Wanted { allocate: Vec::new(), release: Vec::new() };
    let needs = |service: &Value| !spec::is_external_name(service) && !spec::is_headless(service);
    let before = old.filter(|old| !spec::is_external_name(old));
    let Some(old) = before else {
        if needs(service) {
            wanted.allocate = missing_from(service, 0);
        }
        return wanted;
    };
    if spec::is_headless(old) || families::keeps_dual_stack(service, old) {
        return wanted;
    }
    let held = spec::texts(old, "clusterIPs");
    if spec::is_external_name(service) {
        wanted.release = held.into_iter().map(str::to_owned).collect();
        return wanted;
    }
    match (spec::texts(old, "ipFamilies").len(), spec::texts(service, "ipFamilies").len()) {
        (1, 2) => wanted.allocate = missing_from(service, 1),
        (2, 1) => wanted.release = held.into_iter().skip(1).map(str::to_owned).collect(),
        _ => {}
    }
    wanted
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

/// Puts an address into its place; places are to be filled in order.
pub fn set_cluster_ip(service: &mut Value, index: usize, ip: &str) {
    let mut ips: Vec<String> = spec::texts(service, "clusterIPs").into_iter().map(str::to_owned).collect();
    match ips.get_mut(index) {
        Some(place) => ip.clone_into(place),
        None => ips.push(ip.to_owned()),
    }
    spec::set(service, "clusterIPs", ips);
    if index == 0 {
        spec::set(service, "clusterIP", ip);
    }
}

/// The node ports that a service needs to become what it is to become.
pub fn wanted_node_ports(service: &Value, old: Option<&Value>) -> Wanted<WantedNodePort, i64> {
    let held = old.map(spec::node_ports).unwrap_or_default();
    let uses = spec::uses_node_ports(service);
    let allocate = match old {
        _ if !uses => Vec::new(),
        None => for_new_ports(service),
        Some(_) => for_changed_ports(service, &held),
    };
    let kept = if uses { spec::node_ports(service) } else { Vec::new() };
    let held_by_type = old.is_some_and(spec::uses_node_ports);
    let release = held.into_iter().filter(|port| held_by_type && !kept.contains(port)).collect();
    let mut wanted = Wanted { allocate, release };
    add_health_check(service, old, &mut wanted);
    wanted
}

/// Ports of one number share a node port, so that one number serves several protocols.
fn for_new_ports(service: &Value) -> Vec<WantedNodePort> {
    let ports = spec::ports(service);
    let number = |port: &Value| view::integer(port, &["port"]).unwrap_or(0);
    let mut wanted: Vec<(i64, Vec<usize>, Option<i64>)> = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let asked = Some(spec::node_port(port)).filter(|port| *port != 0);
        if asked.is_none() && !spec::allocates_node_ports(service) {
            continue;
        }
        let shared = wanted.iter().position(|(shared, ..)| *shared == number(port));
        match shared.map(|shared| &mut wanted[shared]) {
            None => {
                let same_number = ports.iter().filter(|other| number(other) == number(port));
                let requested = same_number.map(spec::node_port).find(|port| *port != 0);
                wanted.push((number(port), vec![index], requested));
            }
            Some((_, indexes, _)) if asked.is_none() => indexes.push(index),
            Some((_, _, requested)) if *requested == asked => {}
            Some(_) => wanted.push((number(port), vec![index], asked)),
        }
    }
    wanted
        .into_iter()
        .map(|(_, indexes, requested)| WantedNodePort { place: PortPlace::Ports(indexes), requested })
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
        wanted.push(WantedNodePort { place: PortPlace::Ports(vec![index]), requested });
    }
    wanted
}

fn add_health_check(service: &Value, old: Option<&Value>, wanted: &mut Wanted<WantedNodePort, i64>) {
    match (old.filter(|old| spec::needs_health_check(old)), spec::needs_health_check(service)) {
        (None, true) => {
            let requested = Some(spec::health_check_port(service)).filter(|port| *port != 0);
            wanted.allocate.push(WantedNodePort { place: PortPlace::HealthCheck, requested });
        }
        (Some(old), false) => wanted.release.push(spec::health_check_port(old)),
        _ => {}
    }
}

/// Puts a node port into its place.
pub fn set_node_port(service: &mut Value, place: &PortPlace, node_port: i64) {
    match place {
        PortPlace::HealthCheck => spec::set(service, "healthCheckNodePort", node_port),
        PortPlace::Ports(indexes) => {
            for (index, port) in spec::ports_mut(service).iter_mut().enumerate() {
                if indexes.contains(&index) {
                    port["nodePort"] = node_port.into();
                }
            }
        }
    }
}

/// The addresses that a service holds, to be given back when it is gone.
pub fn held_cluster_ips(service: &Value) -> Vec<String> {
    if spec::is_external_name(service) || spec::is_headless(service) {
        return Vec::new();
    }
    spec::texts(service, "clusterIPs").into_iter().map(str::to_owned).collect()
}

/// The node ports that a service holds, to be given back when it is gone.
pub fn held_node_ports(service: &Value) -> Vec<i64> {
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
        WantedNodePort { place: PortPlace::Ports(indexes.to_vec()), requested: None }
    }

    fn asked(index: usize, port: i64) -> WantedNodePort {
        WantedNodePort { place: PortPlace::Ports(vec![index]), requested: Some(port) }
    }

    #[test]
    fn a_new_service_gets_an_address_of_each_family() {
        let mut new = service(json!({"ipFamilies": ["IPv4", "IPv6"], "clusterIPs": ["10.0.0.1"]}));
        let wanted = wanted_cluster_ips(&new, None);
        let found: Vec<_> = wanted.allocate.iter().map(|wanted| wanted.requested.as_deref()).collect();
        assert_eq!(found, [Some("10.0.0.1"), None]);
        set_cluster_ip(&mut new, 0, "10.0.0.1");
        set_cluster_ip(&mut new, 1, "fd00::1");
        assert_eq!(new["spec"]["clusterIP"], "10.0.0.1");
        assert_eq!(new["spec"]["clusterIPs"], json!(["10.0.0.1", "fd00::1"]));
        for none in [json!({"type": "ExternalName"}), json!({"clusterIPs": ["None"], "ipFamilies": ["IPv4"]})]
        {
            assert!(wanted_cluster_ips(&service(none), None).allocate.is_empty());
        }
    }

    #[test]
    fn addresses_come_and_go_with_families_and_type() {
        let one = service(json!({"clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"]}));
        let two = service(json!({"clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"]}));
        let external = service(json!({"type": "ExternalName"}));
        assert_eq!(wanted_cluster_ips(&two, Some(&one)).allocate[0].index, 1);
        assert_eq!(wanted_cluster_ips(&one, Some(&two)).release, ["fd00::1"]);
        assert_eq!(wanted_cluster_ips(&external, Some(&two)).release, ["10.0.0.1", "fd00::1"]);
        assert_eq!(wanted_cluster_ips(&one, Some(&external)).allocate.len(), 1);
        assert_eq!(wanted_cluster_ips(&one, Some(&one)), Wanted { allocate: vec![], release: vec![] });
    }

    #[test]
    fn ports_of_one_number_share_a_node_port() {
        let ports = json!([{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}, {"port": 80, "nodePort": 30080}]);
        let mut new = service(json!({"type": "NodePort", "ports": ports}));
        let wanted = wanted_node_ports(&new, None);
        assert_eq!(wanted.allocate, [any(&[0, 1]), asked(2, 30080)]);
        set_node_port(&mut new, &wanted.allocate[0].place, 30053);
        assert_eq!(spec::node_ports(&new), [30053, 30053, 30080]);
    }

    #[test]
    fn node_ports_come_and_go_with_ports_and_type() {
        let old = service(
            json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30001}, {"port": 2, "nodePort": 30002}]}),
        );
        let new = service(
            json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30001}, {"port": 3}, {"port": 4, "nodePort": 30004}]}),
        );
        let wanted = wanted_node_ports(&new, Some(&old));
        assert_eq!(wanted.allocate, [any(&[1]), asked(2, 30004)]);
        assert_eq!(wanted.release, [30002]);
        let plain = service(json!({"type": "ClusterIP", "ports": [{"port": 1}]}));
        assert_eq!(wanted_node_ports(&plain, Some(&old)).release, [30001, 30002]);
    }

    #[test]
    fn health_checks_have_a_port_of_their_own() {
        let local = service(
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30009}),
        );
        let cluster = service(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Cluster"}));
        let health_check = WantedNodePort { place: PortPlace::HealthCheck, requested: Some(30009) };
        assert_eq!(wanted_node_ports(&local, None).allocate, [health_check]);
        assert_eq!(wanted_node_ports(&cluster, Some(&local)).release, [30009]);
        assert_eq!(held_node_ports(&local), [30009]);
        assert!(held_node_ports(&cluster).is_empty());
    }
}
