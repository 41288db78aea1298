//! Validation of services.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::{addresses, spec};
use crate::kinds::core::rules;
use crate::kinds::ratchet;
use crate::{internal_types, view};

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

const LOAD_BALANCER_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const MAX_AFFINITY_SECONDS: i64 = 86_400;

pub(super) fn validate(service: &Value, errors: &mut ErrorList) {
    check_topology(service, errors);
    if spec::ports(service).is_empty() && !spec::is_headless(service) && !spec::is_external_name(service) {
        errors.push(FieldError::required(&Path::root("spec.ports"), ""));
    }
    check_type(service, errors);
    check_ports(service, errors);
    rules::labels(service, &["spec", "selector"], &Path::root("spec.selector"), errors);
    check_session_affinity(service, errors);
    addresses::validate(service, errors);
    check_external_ips(service, errors);
    rules::required_one_of(spec::service_type(service), TYPES, &Path::root("spec.type"), errors);
    check_node_ports(service, errors);
    check_port_numbers(service, errors);
    check_source_ranges(service, errors);
    check_load_balancer(service, errors);
    check_traffic_policies(service, errors);
}

fn annotation<'a>(service: &'a Value, key: &str) -> Option<&'a str> {
    view::at(service, &["metadata", "annotations", key]).and_then(Value::as_str)
}

fn check_topology(service: &Value, errors: &mut ErrorList) {
    if let (Some(hints), Some(mode)) =
        (annotation(service, TOPOLOGY_HINTS), annotation(service, TOPOLOGY_MODE))
        && hints != mode
    {
        let path = Path::root("metadata.annotations");
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.push(FieldError::invalid(&path.key(TOPOLOGY_MODE), mode, detail));
    }
}

fn check_type(service: &Value, errors: &mut ErrorList) {
    let root = Path::root("spec");
    match spec::service_type(service) {
        kind @ ("LoadBalancer" | "NodePort") if spec::is_headless(service) => {
            let path = root.child("clusterIPs");
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid(&path.index(0), spec::NONE, detail));
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !rules::same(spec::field(service, field), None) {
                    let detail = "may not be set for ExternalName services";
                    errors.push(FieldError::forbidden(&root.child(field), detail));
                }
            }
            let target = spec::text(service, "externalName");
            let target = target.strip_suffix('.').unwrap_or(target);
            rules::required_text(target, name::dns1123_subdomain, &root.child("externalName"), errors);
        }
        _ => {}
    }
}

fn check_ports(service: &Value, errors: &mut ErrorList) {
    let ports = spec::ports(service);
    let list = Path::root("spec.ports");
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = list.index(index);
        let port_name = view::text(port, &["name"]);
        if port_name.is_empty() {
            if ports.len() > 1 {
                errors.push(FieldError::required(&path.child("name"), ""));
            }
        } else {
            rules::text(port_name, name::dns1123_label, &path.child("name"), errors);
            if !names.insert(port_name) {
                errors.push(FieldError::duplicate(&path.child("name"), port_name));
            }
        }
        rules::port_number(view::integer(port, &["port"]).unwrap_or(0), &path.child("port"), errors);
        let protocol = view::text(port, &["protocol"]);
        rules::required_one_of(protocol, rules::PROTOCOLS, &path.child("protocol"), errors);
        rules::port_number_or_name(port.get("targetPort"), &path.child("targetPort"), errors);
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            rules::text(protocol, name::qualified_name, &path.child("appProtocol"), errors);
        }
    }
}

fn check_session_affinity(service: &Value, errors: &mut ErrorList) {
    let affinity = spec::text(service, "sessionAffinity");
    rules::required_one_of(affinity, &["ClientIP", "None"], &Path::root("spec.sessionAffinity"), errors);
    let path = Path::root("spec.sessionAffinityConfig");
    let config = spec::field(service, "sessionAffinityConfig");
    match (affinity, config) {
        // Defaulting has set the fields that were omitted.
        ("ClientIP", Some(config)) => {
            let seconds = view::integer(config, &["clientIP", "timeoutSeconds"]).unwrap_or(0);
            if seconds <= 0 || seconds > MAX_AFFINITY_SECONDS {
                let detail = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
                let path = path.child("clientIP.timeoutSeconds");
                errors.push(FieldError::invalid(&path, seconds, detail));
            }
        }
        ("ClientIP", None) => {
            errors.push(FieldError::required(&path, "when session affinity type is ClientIP"));
        }
        ("None", Some(_)) => {
            errors.push(FieldError::forbidden(&path, "must not be set when session affinity is None"));
        }
        _ => {}
    }
}

fn check_external_ips(service: &Value, errors: &mut ErrorList) {
    let list = Path::root("spec.externalIPs");
    for (index, ip) in spec::texts(service, "externalIPs").into_iter().enumerate() {
        let path = list.index(index);
        let mut valid = false;
        errors.ratcheted(ratchet::EXTERNAL_IP, |errors| valid = rules::ip(ip, &path, errors));
        if valid {
            rules::endpoint_ip(ip, &path, errors);
        }
    }
}

fn check_node_ports(service: &Value, errors: &mut ErrorList) {
    let list = Path::root("spec.ports");
    let ports = spec::ports(service).iter().enumerate().filter(|(_, port)| spec::node_port(port) != 0);
    if spec::service_type(service) == "ClusterIP" {
        for (index, _) in ports.clone() {
            let path = list.index(index);
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(&path.child("nodePort"), detail));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in ports {
        let number = spec::node_port(port);
        if !seen.insert((view::text(port, &["protocol"]), number)) {
            let path = list.index(index);
            errors.push(FieldError::duplicate(&path.child("nodePort"), number));
        }
    }
}

fn check_port_numbers(service: &Value, errors: &mut ErrorList) {
    let list = Path::root("spec.ports");
    let mut seen = BTreeSet::new();
    for (index, port) in spec::ports(service).iter().enumerate() {
        let protocol = view::text(port, &["protocol"]);
        let number = view::integer(port, &["port"]).unwrap_or(0);
        if !seen.insert((protocol, number)) {
            let found = serde_json::json!({"protocol": protocol, "port": number});
            let found = internal_types::printed("@core.ServicePort", Some(&found));
            errors.push(FieldError::duplicate(&list.index(index), found));
        }
    }
}

/// Validates source ranges in the `spec`, or in the annotation that preceded the field. Spaces around them have
/// always been allowed.
fn check_source_ranges(service: &Value, errors: &mut ErrorList) {
    let ranges = spec::texts(service, "loadBalancerSourceRanges");
    let mut refuse_type = |path: &Path<'_>| {
        if !spec::is_load_balancer(service) {
            errors.push(FieldError::forbidden(path, LOAD_BALANCER_ONLY));
        }
    };
    if !ranges.is_empty() {
        let path = Path::root("spec.LoadBalancerSourceRanges");
        refuse_type(&path);
        for (index, range) in ranges.into_iter().enumerate() {
            errors.ratcheted(ratchet::CIDR, |errors| {
                rules::cidr(range.trim(), &path.index(index), errors);
            });
        }
    } else if let Some(ranges) = annotation(service, SOURCE_RANGES) {
        let path = Path::root("metadata.annotations");
        let path = path.key(SOURCE_RANGES);
        refuse_type(&path);
        for range in ranges.trim().split(',').filter(|_| !ranges.trim().is_empty()) {
            errors.ratcheted(ratchet::SOURCE_RANGES_ANNOTATION, |errors| {
                rules::cidr(range.trim(), &path, errors);
            });
        }
    }
}

fn check_load_balancer(service: &Value, errors: &mut ErrorList) {
    let root = Path::root("spec");
    let allocate = spec::field(service, "allocateLoadBalancerNodePorts");
    if allocate.is_some() && !spec::is_load_balancer(service) {
        let path = root.child("allocateLoadBalancerNodePorts");
        errors.push(FieldError::forbidden(&path, LOAD_BALANCER_ONLY));
    }
    check_load_balancer_class(service, errors);
}

fn check_load_balancer_class(service: &Value, errors: &mut ErrorList) {
    let Some(class) = spec::field(service, "loadBalancerClass").and_then(Value::as_str) else { return };
    let path = Path::root("spec.loadBalancerClass");
    if spec::is_load_balancer(service) {
        rules::text(class, name::qualified_name, &path, errors);
    } else {
        errors.push(FieldError::forbidden(&path, LOAD_BALANCER_ONLY));
    }
}

fn check_traffic_policies(service: &Value, errors: &mut ErrorList) {
    let root = Path::root("spec");
    let allowed = &["Cluster", "Local"];
    let external = spec::text(service, "externalTrafficPolicy");
    let path = root.child("externalTrafficPolicy");
    if spec::is_externally_accessible(service) {
        rules::required_one_of(external, allowed, &path, errors);
    } else if !external.is_empty() {
        let detail = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid(&path, BadValue::named(external), detail));
    }
    check_health_check_port(service, &root.child("healthCheckNodePort"), errors);
    let internal = spec::text(service, "internalTrafficPolicy");
    if spec::field(service, "internalTrafficPolicy").is_some() {
        rules::one_of(internal, allowed, &root.child("internalTrafficPolicy"), errors);
    } else if TYPES.contains(&spec::service_type(service)) && !spec::is_external_name(service) {
        errors.push(FieldError::required(&root.child("internalTrafficPolicy"), ""));
    }
    if let Some(distribution) = spec::field(service, "trafficDistribution").and_then(Value::as_str) {
        let allowed = &["PreferClose", "PreferSameZone", "PreferSameNode"];
        rules::one_of(distribution, allowed, &root.child("trafficDistribution"), errors);
    }
}

fn check_health_check_port(service: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match (spec::needs_health_check(service), spec::health_check_port(service)) {
        (false, 0) => {}
        (false, port) => {
            let detail =
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(FieldError::invalid(path, port, detail));
        }
        (true, 0) => errors.push(FieldError::required(path, "")),
        (true, port) => rules::port_number(port, path, errors),
    }
}

pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    addresses::validate_update(new, old, errors);
    let class = |service| spec::field(service, "loadBalancerClass");
    if spec::is_load_balancer(new) && spec::is_load_balancer(old) && class(new) != class(old) {
        let value = class(new).map_or(BadValue::Json("null".to_owned()), BadValue::json);
        let path = Path::root("spec.loadBalancerClass");
        errors.push(FieldError::invalid(&path, value, "may not change once set"));
    }
    // kube-apiserver reports the class for the update and for the whole service.
    check_load_balancer_class(new, errors);
    if spec::needs_health_check(new)
        && spec::needs_health_check(old)
        && spec::health_check_port(new) != spec::health_check_port(old)
    {
        errors.push(FieldError::forbidden(&Path::root("spec.healthCheckNodePort"), rules::IMMUTABLE));
    }
}

pub(super) fn validate_status_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let mut found = ErrorList::new();
    validate_status(new, &mut found);
    found.forgive(new, old, validate_status);
    errors.extend(found);
}

fn validate_status(service: &Value, errors: &mut ErrorList) {
    let path = Path::root("status.loadBalancer");
    if !spec::is_load_balancer(service)
        && !view::items(service, &["status", "loadBalancer", "ingress"]).is_empty()
    {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden(&path.child("ingress"), detail));
    } else if let Some(status) = view::at(service, &["status", "loadBalancer"]) {
        rules::load_balancer_status(status, true, &path, errors);
    }
}

/// Returns warnings about a valid service.
pub(super) fn warnings(service: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if annotation(service, TOPOLOGY_HINTS).is_some() {
        warnings
            .push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    let ip = spec::text(service, "clusterIP");
    if !ip.is_empty() && ip != spec::NONE {
        warnings.extend(list_warnings(service, "clusterIPs", name::ip_warnings));
    }
    let external_ips = !spec::texts(service, "externalIPs").is_empty();
    let headless = spec::service_type(service) == "ClusterIP" && ip == spec::NONE;
    if headless {
        warnings.extend(headless_warnings(service, external_ips));
    }
    warnings.extend(list_warnings(service, "externalIPs", name::ip_warnings));
    if external_ips && !headless && !spec::is_external_name(service) {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    let load_balancer_ip = spec::text(service, "loadBalancerIP");
    if !load_balancer_ip.is_empty() {
        warnings.extend(name::ip_warnings(&Path::root("spec.loadBalancerIP"), load_balancer_ip));
    }
    warnings.extend(list_warnings(service, "loadBalancerSourceRanges", name::cidr_warnings));
    if spec::is_external_name(service) {
        if external_ips {
            warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
        }
    } else if !spec::text(service, "externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec::text(service, "trafficDistribution") == "PreferClose" {
        warnings.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
    warnings
}

fn headless_warnings(service: &Value, external_ips: bool) -> Vec<String> {
    let ignored = [
        ("loadBalancerIP", !spec::text(service, "loadBalancerIP").is_empty()),
        ("externalIPs", external_ips),
        ("SessionAffinity", spec::text(service, "sessionAffinity") != "None"),
    ];
    ignored
        .into_iter()
        .filter(|(_, set)| *set)
        .map(|(field, _)| format!("spec.{field} is ignored for headless services"))
        .collect()
}

fn list_warnings(service: &Value, field: &str, warnings: fn(&Path<'_>, &str) -> Vec<String>) -> Vec<String> {
    let root = Path::root("spec");
    let list = root.child(field);
    let values = spec::texts(service, field).into_iter().enumerate();
    values.flat_map(|(index, value)| warnings(&list.index(index), value)).collect()
}
