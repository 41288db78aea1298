//! Access to fields of a service's `spec`.

use coracle_meta::name;
use serde_json::Value;

use crate::view;

/// Value of `clusterIP` in headless services.
pub(super) const NONE: &str = "None";

/// Returns a text of the `spec`; empty if it is absent.
pub(super) fn text<'a>(service: &'a Value, field: &str) -> &'a str {
    view::text(service, &["spec", field])
}

/// Returns the texts of a list of the `spec`.
pub(super) fn texts<'a>(service: &'a Value, field: &str) -> Vec<&'a str> {
    view::items(service, &["spec", field]).iter().filter_map(Value::as_str).collect()
}

/// Returns any field of the `spec`.
pub(super) fn field<'a>(service: &'a Value, field: &str) -> Option<&'a Value> {
    view::at(service, &["spec", field])
}

/// Sets a field of the `spec`.
pub(super) fn set(service: &mut Value, field: &str, value: impl Into<Value>) {
    service["spec"][field] = value.into();
}

/// Removes a field of the `spec`.
pub(super) fn remove(service: &mut Value, field: &str) {
    if let Some(Value::Object(spec)) = service.get_mut("spec") {
        spec.remove(field);
    }
}

/// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
pub(super) fn service_type(service: &Value) -> &str {
    text(service, "type")
}

pub(super) fn is_external_name(service: &Value) -> bool {
    service_type(service) == "ExternalName"
}

pub(super) fn is_load_balancer(service: &Value) -> bool {
    service_type(service) == "LoadBalancer"
}

/// Returns true if the type has node ports.
pub(super) fn uses_node_ports(service: &Value) -> bool {
    ["NodePort", "LoadBalancer"].contains(&service_type(service))
}

/// Returns true if a node port is allocated for each port that does not request one.
pub(super) fn allocates_node_ports(service: &Value) -> bool {
    let wanted = field(service, "allocateLoadBalancerNodePorts").and_then(Value::as_bool).unwrap_or(true);
    service_type(service) == "NodePort" || is_load_balancer(service) && wanted
}

/// Returns true if nodes serve a health check on a port of its own, which reports whether they have local endpoints.
pub(super) fn needs_health_check(service: &Value) -> bool {
    is_load_balancer(service) && text(service, "externalTrafficPolicy") == "Local"
}

/// Returns true if the service is reachable from outside the cluster.
pub(super) fn is_externally_accessible(service: &Value) -> bool {
    uses_node_ports(service)
        || service_type(service) == "ClusterIP" && !texts(service, "externalIPs").is_empty()
}

/// Returns true for a headless service, which has no address by intention.
pub(super) fn is_headless(service: &Value) -> bool {
    texts(service, "clusterIPs") == [NONE]
}

pub(super) fn ports(service: &Value) -> &[Value] {
    view::items(service, &["spec", "ports"])
}

pub(super) fn ports_mut(service: &mut Value) -> &mut [Value] {
    match service.pointer_mut("/spec/ports") {
        Some(Value::Array(ports)) => ports,
        _ => &mut [],
    }
}

/// Node port of a port; 0 if there is none.
pub(super) fn node_port(port: &Value) -> i64 {
    view::integer(port, &["nodePort"]).unwrap_or(0)
}

/// Node ports of all ports.
pub(super) fn node_ports(service: &Value) -> Vec<i64> {
    ports(service).iter().map(node_port).filter(|port| *port != 0).collect()
}

/// Node port of the health check; 0 if there is none.
pub(super) fn health_check_port(service: &Value) -> i64 {
    view::integer(service, &["spec", "healthCheckNodePort"]).unwrap_or(0)
}

/// `IPv4` or `IPv6`; `None` if the text is not an address.
pub(super) fn family_of(ip: &str) -> Option<&'static str> {
    name::parse_ip_sloppy(ip).map(|ip| if ip.is_ipv4() { "IPv4" } else { "IPv6" })
}

/// The opposite IP family.
pub(super) fn other_family(family: &str) -> &'static str {
    if family == "IPv4" { "IPv6" } else { "IPv4" }
}
