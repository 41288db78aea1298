//! Service: a stable name and address for a set of pods.
//!
//! A service's fields depend on each other: its type determines which others apply, and addresses
//! and node ports come from pools. `allocation` computes what a write must allocate, `claims`
//! allocates it.

mod addresses;
mod allocation;
mod claims;
mod families;
#[cfg(any(test, feature = "samples"))]
mod samples;
mod spec;
mod transition;
mod validate;

pub(crate) use claims::NODE_PORTS_PREFIX;

use std::borrow::Cow;
use std::sync::LazyLock;

use coracle_meta::field::ErrorList;
use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::rules;
use crate::allocation::{Allocation, Pool, Unallocated};
use crate::kind::{Column, Declaration, Kind, NameRule, Scope, Subresource, Verbs, texts};
use crate::kinds::networking::service_cidr::ServiceCidr;
use crate::view;

use families::init_ip_families;
use transition::{carry_over_allocated, sync_cluster_ips};

/// Default timeout of session affinity by client IP.
const AFFINITY_SECONDS: i64 = 10_800;

/// [`Kind`] of Service objects.
pub struct Service;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    short_names: texts(&["svc"]),
    categories: texts(&["all"]),
    subresources: vec![
        Subresource::new(
            "proxy",
            "ServiceProxyOptions",
            Verbs::CREATE.with(Verbs::DELETE).with(Verbs::GET).with(Verbs::PATCH).with(Verbs::UPDATE),
        ),
        Subresource::status("Service"),
    ],
    names: NameRule::DnsLabel,
    create_on_update: true,
    deletion_returns_object: true,
    selectable_fields: texts(&["spec.clusterIP", "spec.type"]),
    columns: vec![
        Column::name(),
        Column::text("Type", "type of the service"),
        Column::text("Cluster-IP", "cluster IP address"),
        Column::text("External-IP", "external IP addresses"),
        Column::text("Port(s)", "ports and node ports"),
        Column::age(),
        Column::text("Selector", "label selector of the pods").wide(),
    ],
    storage_version_hash: "0/CO1lhkEBI=".into(),
    reports_changes_first: true,
    ..Declaration::new("", &["v1"], "Service", "services", "service", Scope::Namespaced)
});

impl Kind for Service {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        if !object.get("spec").is_some_and(Value::is_object) {
            object["spec"] = json!({});
        }
        default_session_affinity(object);
        if spec::service_type(object).is_empty() {
            spec::set(object, "type", "ClusterIP");
        }
        for port in spec::ports_mut(object) {
            default_port(port);
        }
        default_policies(object);
        rules::set_load_balancer_default(object);
        if spec::is_load_balancer(object) {
            default_ip_modes(object);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        rules::set_load_balancer_default(object);
        sync_cluster_ips(object);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        carry_over_allocated(new, old);
        transition::drop_inapplicable_fields(new, old);
    }

    fn ranges_from(&self) -> Option<&'static dyn Kind> {
        Some(&ServiceCidr)
    }

    fn allocate(&self, new: &mut Value, old: Option<&Value>, pool: &mut Pool<'_>) -> Result<(), Unallocated> {
        claims::allocate(new, old, pool)
    }

    fn allocations(&self, object: &Value) -> Vec<Allocation> {
        claims::claims(object)
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        validate::validate(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        validate::validate_update(new, old, errors);
    }

    fn validate_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        validate::validate_status_update(new, old, errors);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        validate::warnings(new)
    }

    fn status_warnings(&self, new: &Value) -> Vec<String> {
        rules::load_balancer_status_warnings(new)
    }

    fn selectable_value<'a>(&self, object: &'a Value, field: &str) -> Cow<'a, str> {
        Cow::Borrowed(spec::text(object, field.strip_prefix("spec.").unwrap_or(field)))
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let cluster_ips = spec::texts(object, "clusterIPs");
        vec![
            view::name(object).into(),
            spec::service_type(object).into(),
            (*cluster_ips.first().unwrap_or(&"<none>")).into(),
            external_ips_cell(object).into(),
            ports_cell(object).into(),
            view::age(object, now),
            rules::labels_cell(object, &["spec", "selector"]).into(),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples::samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        samples::stored_samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn warned_samples(&self) -> Vec<crate::samples::Warned> {
        samples::warned_samples()
    }
}

fn default_session_affinity(service: &mut Value) {
    if spec::text(service, "sessionAffinity").is_empty() {
        spec::set(service, "sessionAffinity", "None");
    }
    let config = ["spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"];
    match spec::text(service, "sessionAffinity") {
        "None" => spec::remove(service, "sessionAffinityConfig"),
        "ClientIP" if view::at(service, &config).is_none() => {
            let config = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
            spec::set(service, "sessionAffinityConfig", config);
        }
        _ => {}
    }
}

fn default_port(port: &mut Value) {
    if view::text(port, &["protocol"]).is_empty() {
        port["protocol"] = "TCP".into();
    }
    if rules::same(port.get("targetPort"), None) {
        port["targetPort"] = port.get("port").cloned().unwrap_or_else(|| 0.into());
    }
}

fn default_policies(service: &mut Value) {
    if spec::is_externally_accessible(service) && spec::text(service, "externalTrafficPolicy").is_empty() {
        spec::set(service, "externalTrafficPolicy", "Cluster");
    }
    match spec::service_type(service) {
        // The field has no effect for this type, and kube-apiserver hides it.
        "ExternalName" => spec::remove(service, "internalTrafficPolicy"),
        "ClusterIP" | "NodePort" | "LoadBalancer"
            if spec::field(service, "internalTrafficPolicy").is_none() =>
        {
            spec::set(service, "internalTrafficPolicy", "Cluster");
        }
        _ => {}
    }
    if spec::is_load_balancer(service) && spec::field(service, "allocateLoadBalancerNodePorts").is_none() {
        spec::set(service, "allocateLoadBalancerNodePorts", true);
    }
}

fn default_ip_modes(service: &mut Value) {
    if let Some(Value::Array(ingresses)) = service.pointer_mut("/status/loadBalancer/ingress") {
        for ingress in ingresses {
            if !view::text(ingress, &["ip"]).is_empty() {
                view::set_default(ingress, "ipMode", || "VIP".into());
            }
        }
    }
}

fn external_ips_cell(service: &Value) -> String {
    let external = spec::texts(service, "externalIPs").join(",");
    match spec::service_type(service) {
        "ClusterIP" | "NodePort" => rules::or(external, "<none>"),
        "LoadBalancer" => {
            let balancer = rules::load_balancer_cell(service);
            let both: Vec<_> = [balancer, external].into_iter().filter(|part| !part.is_empty()).collect();
            rules::or(both.join(","), "<pending>")
        }
        "ExternalName" => spec::text(service, "externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports_cell(service: &Value) -> String {
    let format_port = |port: &Value| {
        let number = view::integer(port, &["port"]).unwrap_or(0);
        let protocol = view::text(port, &["protocol"]);
        match spec::node_port(port) {
            node_port if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    };
    let ports: Vec<_> = spec::ports(service).iter().map(format_port).collect();
    rules::or(ports.join(","), "<none>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaulted(spec: Value) -> Value {
        let mut service = json!({"spec": spec});
        Service.set_defaults(&mut service);
        service["spec"].clone()
    }

    #[test]
    fn defaults_depend_on_the_type() {
        assert_eq!(
            defaulted(json!({"ports": [{"port": 80}]})),
            json!({"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]})
        );
        let balancer = defaulted(json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP"}));
        assert_eq!(balancer["allocateLoadBalancerNodePorts"], true);
        assert_eq!(balancer["externalTrafficPolicy"], "Cluster");
        assert_eq!(balancer["sessionAffinityConfig"], json!({"clientIP": {"timeoutSeconds": 10800}}));
        let external = defaulted(
            json!({"type": "ExternalName", "externalName": "a.b", "internalTrafficPolicy": "Cluster"}),
        );
        assert_eq!(
            external,
            json!({"type": "ExternalName", "externalName": "a.b", "sessionAffinity": "None"})
        );
    }

    #[test]
    fn table_row_shows_addresses_and_ports() {
        let cells = |spec: Value, ingress: Value| {
            Service.cells(&json!({"spec": spec, "status": {"loadBalancer": {"ingress": ingress}}}), 0)
        };
        let ports =
            json!([{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]);
        let balancer = cells(
            json!({"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"], "externalIPs": ["2.2.2.2"], "ports": ports, "selector": {"a": "b"}}),
            json!([{"ip": "1.1.1.1"}]),
        );
        assert_eq!(
            balancer[2..5],
            [json!("10.0.0.1"), json!("1.1.1.1,2.2.2.2"), json!("80:30080/TCP,53/UDP")]
        );
        assert_eq!(balancer[6], "a=b");
        assert_eq!(cells(json!({"type": "LoadBalancer"}), json!([]))[3], "<pending>");
        assert_eq!(
            cells(json!({"type": "ClusterIP"}), json!([]))[2..5],
            ["<none>", "<none>", "<none>"].map(Value::from)
        );
        assert_eq!(cells(json!({"type": "ExternalName", "externalName": "a.b"}), json!([]))[3], "a.b");
    }

    #[test]
    fn load_balancer_status_requires_the_type() {
        let check = |service_type: &str, ingress: Value| {
            let service =
                json!({"spec": {"type": service_type}, "status": {"loadBalancer": {"ingress": [ingress]}}});
            let mut errors = ErrorList::new();
            Service.validate_status_update(&service, &service, &mut errors);
            errors.iter().map(|error| error.field.clone()).collect::<Vec<_>>()
        };
        assert_eq!(check("LoadBalancer", json!({"ip": "1.1.1.1", "ipMode": "VIP"})), [""; 0]);
        assert_eq!(check("ClusterIP", json!({"ip": "1.1.1.1"})), ["status.loadBalancer.ingress"]);
        assert_eq!(
            check("LoadBalancer", json!({"ip": "1.1.1.1"})),
            ["status.loadBalancer.ingress[0].ipMode"]
        );
        assert_eq!(
            check("LoadBalancer", json!({"hostname": "1.1.1.1"})),
            ["status.loadBalancer.ingress[0].hostname"]
        );
    }

    #[test]
    fn deprecated_and_ignored_fields_cause_warnings() {
        let warnings = |spec: Value| Service.warnings(&json!({"spec": spec}), None);
        assert!(warnings(json!({"type": "ClusterIP", "sessionAffinity": "None"})).is_empty());
        assert_eq!(
            warnings(json!({"type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "ClientIP"})),
            ["spec.SessionAffinity is ignored for headless services"]
        );
        assert_eq!(
            warnings(json!({"type": "ClusterIP", "trafficDistribution": "PreferClose", "externalName": "a"})),
            [
                "spec.externalName is ignored when spec.type is not \"ExternalName\"",
                "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
            ]
        );
    }
}
