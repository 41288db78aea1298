//! Fields that change along with a service's other fields when it is created or updated.
//!
//! Its fields depend on each other and some are set by the server, so a value that a client
//! omits, or leaves unchanged, is not always the desired one.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::spec;
use crate::kinds::core::rules::same;
use crate::view;

/// Makes `clusterIP` and `clusterIPs` of a new service agree.
pub(super) fn sync_cluster_ips(service: &mut Value) {
    let ip = spec::text(service, "clusterIP").to_owned();
    if !ip.is_empty() && spec::texts(service, "clusterIPs").is_empty() {
        spec::set(service, "clusterIPs", json!([ip]));
    }
}

/// Carries over values that the server allocated and the client does not repeat, so that the
/// same manifest can be applied twice.
pub(super) fn carry_over_allocated(new: &mut Value, old: &Value) {
    if !spec::is_external_name(old) && !spec::is_external_name(new) {
        keep_if_absent(new, old, "clusterIP");
        keep_if_absent(new, old, "clusterIPs");
    }
    if spec::allocates_node_ports(old) && spec::allocates_node_ports(new) {
        keep_node_ports(new, old);
    }
    if spec::needs_health_check(old) && spec::needs_health_check(new) {
        keep_if_absent(new, old, "healthCheckNodePort");
    }
    follow_cluster_ip(new, old);
}

fn keep_if_absent(new: &mut Value, old: &Value, field: &str) {
    if same(spec::field(new, field), None)
        && let Some(value) = spec::field(old, field)
    {
        spec::set(new, field, value.clone());
    }
}

/// Ports keep their node port by name, unless another port has taken it.
fn keep_node_ports(new: &mut Value, old: &Value) {
    let taken: BTreeSet<i64> = spec::node_ports(new).into_iter().collect();
    for port in spec::ports_mut(new) {
        if spec::node_port(port) != 0 {
            continue;
        }
        let name = view::text(port, &["name"]);
        let before = spec::ports(old).iter().rfind(|port| view::text(port, &["name"]) == name);
        let node_port = before.map_or(0, spec::node_port);
        if node_port != 0 && !taken.contains(&node_port) {
            port["nodePort"] = node_port.into();
        }
    }
}

/// Makes `clusterIPs` follow `clusterIP`: older clients change only the latter, or omit the former.
fn follow_cluster_ip(new: &mut Value, old: &Value) {
    let ip = spec::text(new, "clusterIP").to_owned();
    if ip == spec::text(old, "clusterIP") {
        keep_if_absent(new, old, "clusterIPs");
        return;
    }
    if spec::texts(new, "clusterIPs") != spec::texts(old, "clusterIPs") {
        return;
    }
    if ip.is_empty() {
        spec::remove(new, "clusterIPs");
    } else {
        spec::set(new, "clusterIPs", json!([ip]));
    }
}

/// Drops fields that do not apply to the new type of a service, unless the client changed them.
pub(super) fn drop_inapplicable_fields(new: &mut Value, old: &Value) {
    if !spec::is_external_name(old) && spec::is_external_name(new) {
        if unchanged(new, old, "clusterIP") && unchanged(new, old, "clusterIPs") {
            spec::remove(new, "clusterIP");
            spec::remove(new, "clusterIPs");
        }
        drop_unchanged(new, old, "ipFamilies");
        drop_unchanged(new, old, "ipFamilyPolicy");
    }
    if spec::uses_node_ports(old) && !spec::uses_node_ports(new) {
        drop_node_ports(new, old);
    }
    if spec::needs_health_check(old) && !spec::needs_health_check(new) {
        drop_unchanged(new, old, "healthCheckNodePort");
    }
    if spec::is_load_balancer(old) && !spec::is_load_balancer(new) {
        drop_unchanged(new, old, "allocateLoadBalancerNodePorts");
        drop_unchanged(new, old, "loadBalancerClass");
    }
    if spec::is_externally_accessible(old) && !spec::is_externally_accessible(new) {
        drop_unchanged(new, old, "externalTrafficPolicy");
    }
    if !spec::is_load_balancer(new) && view::at(new, &["status", "loadBalancer"]).is_some() {
        new["status"]["loadBalancer"] = json!({});
    }
}

fn unchanged(new: &Value, old: &Value, field: &str) -> bool {
    same(spec::field(new, field), spec::field(old, field))
}

fn drop_unchanged(new: &mut Value, old: &Value, field: &str) {
    if unchanged(new, old, field) {
        spec::remove(new, field);
    }
}

/// Drops the node ports of a service whose new type has none, unless one of them is new.
fn drop_node_ports(new: &mut Value, old: &Value) {
    let before: BTreeSet<i64> = spec::node_ports(old).into_iter().collect();
    if spec::node_ports(new).iter().all(|port| before.contains(port)) {
        for port in spec::ports_mut(new) {
            if let Value::Object(port) = port {
                port.remove("nodePort");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried_over(new: Value, old: Value) -> Value {
        let mut new = json!({"spec": new});
        carry_over_allocated(&mut new, &json!({"spec": old}));
        new["spec"].clone()
    }

    #[test]
    fn allocated_values_are_carried_over() {
        let old = json!({"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"name": "a", "nodePort": 30001}, {"name": "b", "nodePort": 30002}]});
        let new = json!({"type": "NodePort", "ports": [{"name": "b"}, {"name": "c"}]});
        let spec = carried_over(new, old.clone());
        assert_eq!(spec["clusterIPs"], json!(["10.0.0.1"]));
        assert_eq!(spec["ports"], json!([{"name": "b", "nodePort": 30002}, {"name": "c"}]));
        let moved = json!({"type": "NodePort", "ports": [{"name": "a"}, {"name": "b", "nodePort": 30001}]});
        assert_eq!(
            carried_over(moved, old)["ports"],
            json!([{"name": "a"}, {"name": "b", "nodePort": 30001}])
        );
    }

    #[test]
    fn cluster_ips_follow_cluster_ip() {
        let old = json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]});
        let changed = json!({"clusterIP": "None", "clusterIPs": ["10.0.0.1"]});
        assert_eq!(carried_over(changed, old)["clusterIPs"], json!(["None"]));
        let mut service = json!({"spec": {"clusterIP": "None"}});
        sync_cluster_ips(&mut service);
        assert_eq!(service["spec"]["clusterIPs"], json!(["None"]));
    }

    #[test]
    fn inapplicable_fields_are_dropped_with_the_type() {
        let old = json!({"spec": {
            "type": "LoadBalancer", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "externalTrafficPolicy": "Local", "healthCheckNodePort": 30009, "allocateLoadBalancerNodePorts": true, "loadBalancerClass": "a/b",
            "ports": [{"port": 80, "nodePort": 30001}],
        }, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}});
        let mut new = old.clone();
        new["spec"]["type"] = "ClusterIP".into();
        drop_inapplicable_fields(&mut new, &old);
        assert_eq!(
            new["spec"],
            json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80}]})
        );
        assert_eq!(new["status"]["loadBalancer"], json!({}));
        let mut external = old.clone();
        external["spec"]["type"] = "ExternalName".into();
        external["spec"]["ports"][0]["nodePort"] = 30002.into();
        drop_inapplicable_fields(&mut external, &old);
        assert_eq!(
            external["spec"],
            json!({"type": "ExternalName", "ports": [{"port": 80, "nodePort": 30002}]}),
            "a new node port stays, to be refused"
        );
    }
}
