//! Sample services.

use serde_json::{Value, json};

use crate::samples::{Refused, Samples, Stored, Warned, merged};

fn with(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "sample", "namespace": "default"}, "spec": spec})
}

/// A service with one valid port and additional fields.
fn with_port(extra: Value) -> Value {
    let mut spec = json!({"ports": [{"port": 80}]});
    if let (Value::Object(fields), Value::Object(extra)) = (&mut spec, extra) {
        fields.extend(extra);
    }
    with(spec)
}

pub(super) fn samples() -> Samples {
    Samples { valid: valid(), invalid: invalid(), updates: updates(), invalid_updates: invalid_updates() }
}

pub(super) fn stored_samples() -> Vec<Stored> {
    let valid = &valid()[0];
    let external = merged(valid, &json!({"spec": {"externalIPs": ["010.0.0.1"]}}));
    let ranges = merged(valid, &json!({"spec": {"loadBalancerSourceRanges": ["10.0.0.1/8"]}}));
    vec![
        Stored::new(external).refusing(
            json!({"spec": {"externalIPs": ["010.0.0.2"]}}),
            "spec.externalIPs[0]",
            "FieldValueInvalid",
        ),
        Stored::new(ranges).refusing(
            json!({"spec": {"loadBalancerSourceRanges": ["10.0.0.2/8"]}}),
            "spec.LoadBalancerSourceRanges[0]",
            "FieldValueInvalid",
        ),
    ]
}

pub(super) fn warned_samples() -> Vec<Warned> {
    let close = with(json!({"trafficDistribution": "PreferClose"}));
    let close_warning = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "::ffff:10.0.0.1"}]}}});
    let status_told = "status.loadBalancer.ingress[0]: non-standard IP address \"::ffff:10.0.0.1\" is invalid: \
                       use \"10.0.0.1\"";
    vec![
        Warned::created(close.clone(), &[close_warning]),
        Warned::updated(close.clone(), close.clone(), &[close_warning]),
        Warned::status(merged(&close, &status), &[status_told]),
    ]
}

fn valid() -> Vec<Value> {
    vec![
        with(json!({
            "type": "LoadBalancer",
            "clusterIP": "10.0.0.1",
            "clusterIPs": ["10.0.0.1"],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "selector": {"app": "web"},
            "ports": [
                {"name": "http", "port": 80, "targetPort": "http", "nodePort": 30080, "appProtocol": "kubernetes.io/h2c"},
                {"name": "dns", "port": 53, "protocol": "UDP"},
            ],
            "sessionAffinity": "ClientIP",
            "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 30090,
            "loadBalancerClass": "example.com/lb",
            "loadBalancerSourceRanges": [" 10.0.0.0/8 "],
            "externalIPs": ["203.0.113.1"],
            "trafficDistribution": "PreferSameZone",
        })),
        with_port(json!({})),
        with(json!({"clusterIP": "None"})),
        with(json!({"type": "ExternalName", "externalName": "example.com."})),
        with_port(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]})),
    ]
}

fn invalid() -> Vec<Refused> {
    let (invalid, required, forbidden) = ("FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden");
    let (unsupported, duplicate) = ("FieldValueNotSupported", "FieldValueDuplicate");
    let port = |port: Value| with(json!({"ports": [port]}));
    let ports = |one: Value, other: Value| with(json!({"type": "NodePort", "ports": [one, other]}));
    vec![
        Refused::new(with(json!({})), "spec.ports", required),
        Refused::new(with_port(json!({"type": "Some"})), "spec.type", unsupported),
        Refused::new(with(json!({"type": "ExternalName"})), "spec.externalName", required),
        Refused::new(
            with(json!({"type": "ExternalName", "externalName": "a", "clusterIP": "10.0.0.1"})),
            "spec.clusterIPs",
            forbidden,
        ),
        Refused::new(
            with_port(json!({"type": "NodePort", "clusterIP": "None"})),
            "spec.clusterIPs[0]",
            invalid,
        ),
        Refused::new(port(json!({"port": 0})), "spec.ports[0].port", invalid),
        Refused::new(port(json!({"port": 1, "protocol": "tcp"})), "spec.ports[0].protocol", unsupported),
        Refused::new(port(json!({"port": 1, "targetPort": "a_b"})), "spec.ports[0].targetPort", invalid),
        Refused::new(port(json!({"port": 1, "nodePort": 30001})), "spec.ports[0].nodePort", forbidden),
        Refused::new(
            ports(json!({"name": "a", "port": 1}), json!({"port": 2})),
            "spec.ports[1].name",
            required,
        ),
        Refused::new(
            ports(json!({"name": "a", "port": 1}), json!({"name": "a", "port": 2})),
            "spec.ports[1].name",
            duplicate,
        ),
        Refused::new(
            ports(json!({"name": "a", "port": 1}), json!({"name": "b", "port": 1})),
            "spec.ports[1]",
            duplicate,
        ),
        Refused::new(
            ports(
                json!({"name": "a", "port": 1, "nodePort": 30001}),
                json!({"name": "b", "port": 2, "nodePort": 30001}),
            ),
            "spec.ports[1].nodePort",
            duplicate,
        ),
        Refused::new(with_port(json!({"selector": {"a b": ""}})), "spec.selector", invalid),
        Refused::new(with_port(json!({"sessionAffinity": "Some"})), "spec.sessionAffinity", unsupported),
        Refused::new(
            with_port(
                json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}}),
            ),
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            invalid,
        ),
        Refused::new(with_port(json!({"clusterIPs": ["10.0.0.1"]})), "spec.clusterIPs", invalid),
        Refused::new(with_port(json!({"clusterIP": "10.0.0.01"})), "spec.clusterIPs[0]", invalid),
        Refused::new(with_port(json!({"ipFamilies": ["IPv5"]})), "spec.ipFamilies[0]", unsupported),
        Refused::new(with_port(json!({"ipFamilyPolicy": "Dual"})), "spec.ipFamilyPolicy", unsupported),
        Refused::new(with_port(json!({"externalIPs": ["127.0.0.1"]})), "spec.externalIPs[0]", invalid),
        Refused::new(
            with_port(json!({"loadBalancerSourceRanges": ["10.0.0.0/8"]})),
            "spec.LoadBalancerSourceRanges",
            forbidden,
        ),
        Refused::new(
            with_port(json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.1"]})),
            "spec.LoadBalancerSourceRanges[0]",
            invalid,
        ),
        Refused::new(
            with_port(json!({"allocateLoadBalancerNodePorts": true})),
            "spec.allocateLoadBalancerNodePorts",
            forbidden,
        ),
        Refused::new(with_port(json!({"loadBalancerClass": "a/b"})), "spec.loadBalancerClass", forbidden),
        Refused::new(
            with_port(json!({"externalTrafficPolicy": "Local"})),
            "spec.externalTrafficPolicy",
            invalid,
        ),
        Refused::new(
            with_port(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})),
            "spec.healthCheckNodePort",
            required,
        ),
        Refused::new(with_port(json!({"healthCheckNodePort": 30001})), "spec.healthCheckNodePort", invalid),
        Refused::new(
            with_port(json!({"internalTrafficPolicy": "Some"})),
            "spec.internalTrafficPolicy",
            unsupported,
        ),
        Refused::new(
            with_port(json!({"trafficDistribution": "Some"})),
            "spec.trafficDistribution",
            unsupported,
        ),
    ]
}

fn updates() -> Vec<Value> {
    vec![
        json!({"spec": {"selector": {"app": "other"}}}),
        // Values that the server allocated may be omitted.
        json!({"spec": {"clusterIP": null, "clusterIPs": null, "healthCheckNodePort": null}}),
        json!({"spec": {"type": "ClusterIP", "loadBalancerSourceRanges": null, "externalIPs": null}}),
        json!({"spec": {"type": "ExternalName", "externalName": "example.com", "loadBalancerSourceRanges": null}}),
    ]
}

fn invalid_updates() -> Vec<Refused> {
    let invalid = "FieldValueInvalid";
    vec![
        Refused::new(json!({"spec": {"clusterIP": "10.0.0.2"}}), "spec.clusterIPs[0]", invalid),
        Refused::new(json!({"spec": {"ipFamilies": ["IPv6"]}}), "spec.ipFamilies[0]", invalid),
        Refused::new(
            json!({"spec": {"loadBalancerClass": "example.com/b"}}),
            "spec.loadBalancerClass",
            invalid,
        ),
        Refused::new(
            json!({"spec": {"healthCheckNodePort": 30091}}),
            "spec.healthCheckNodePort",
            "FieldValueForbidden",
        ),
    ]
}
