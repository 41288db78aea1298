//! EndpointSlice: some of the endpoints of a service.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::time::Time;
use serde_json::Value;

use crate::kind::{Column, Declaration, Generation, Kind, Scope};
use crate::kinds::core::rules;
use crate::kinds::ratchet;
use crate::view;

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_HINTS: usize = 8;

/// Label that names the component that maintains an object.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// [`Kind`] of EndpointSlice objects.
pub struct EndpointSlice;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    checks_metadata_change_again: false,
    metadata_checks: 1,
    generation: Generation::ContentAndLabels,
    columns: vec![
        Column::name(),
        Column::text("AddressType", "type of the addresses"),
        Column::text("Ports", "first ports"),
        Column::text("Endpoints", "first addresses of the endpoints"),
        Column::age(),
    ],
    storage_version_hash: "qgS0xkrxYAI=".into(),
    ..Declaration::new(
        "discovery.k8s.io",
        &["v1"],
        "EndpointSlice",
        "endpointslices",
        "endpointslice",
        Scope::Namespaced,
    )
});

impl Kind for EndpointSlice {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        let Some(Value::Array(ports)) = object.get_mut("ports") else { return };
        for port in ports {
            view::set_default(port, "name", || "".into());
            view::set_default(port, "protocol", || "TCP".into());
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        drop_topology(object);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        if new.get("endpoints") != old.get("endpoints") {
            drop_topology(new);
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let address_type = view::text(object, &["addressType"]);
        rules::required_one_of(address_type, &["FQDN", "IPv4", "IPv6"], &Path::root("addressType"), errors);
        check_ports(view::items(object, &["ports"]), &Path::root("ports"), errors);
        let endpoints = view::items(object, &["endpoints"]);
        let list = Path::root("endpoints");
        if endpoints.len() > MAX_ENDPOINTS {
            let error = FieldError::too_many(&list, endpoints.len(), MAX_ENDPOINTS);
            errors.push(error.unless(ratchet::ENDPOINTS));
            return;
        }
        for (index, endpoint) in endpoints.iter().enumerate() {
            errors.ratcheted(ratchet::ENDPOINTS, |errors| {
                check_endpoint(endpoint, address_type, &list.index(index), errors);
            });
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        rules::immutable(
            "S",
            new.get("addressType"),
            old.get("addressType"),
            &Path::root("addressType"),
            errors,
        );
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && view::text(new, &["addressType"]) == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        let manager = view::text(new, &["metadata", "labels", MANAGED_BY]);
        let ours = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
        if ours.contains(&manager) {
            return warnings;
        }
        let list = Path::root("endpoints");
        for (index, endpoint) in view::items(new, &["endpoints"]).iter().enumerate() {
            let path = list.index(index);
            let path = path.child("addresses");
            for (index, address) in view::items(endpoint, &["addresses"]).iter().enumerate() {
                let address = address.as_str().unwrap_or_default();
                warnings.extend(name::ip_warnings(&path.index(index), address));
            }
        }
        warnings
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let ports = view::items(object, &["ports"]).iter().map(port_cell).collect();
        let addresses = view::items(object, &["endpoints"])
            .iter()
            .flat_map(|endpoint| view::items(endpoint, &["addresses"]))
            .map(|address| address.as_str().unwrap_or_default().to_owned())
            .collect();
        vec![
            view::name(object).into(),
            view::text(object, &["addressType"]).into(),
            join_first(ports).into(),
            join_first(addresses).into(),
            view::age(object, now),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        use serde_json::json;

        let valid = &self.samples().valid[0];
        let endpoints = |ip: &str| json!([{"addresses": [ip]}]);
        vec![crate::samples::Stored::of(valid, &json!({"endpoints": endpoints("010.0.0.1")})).refusing(
            json!({"endpoints": endpoints("010.0.0.2")}),
            "endpoints[0].addresses[0]",
            "FieldValueInvalid",
        )]
    }
}

/// Removes `deprecatedTopology`, which belongs to a removed version and cannot be written.
fn drop_topology(object: &mut Value) {
    if let Some(Value::Array(endpoints)) = object.get_mut("endpoints") {
        for endpoint in endpoints {
            if let Value::Object(fields) = endpoint {
                fields.remove("deprecatedTopology");
            }
        }
    }
}

fn check_ports(ports: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    if ports.len() > MAX_PORTS {
        errors.push(FieldError::too_many(path, ports.len(), MAX_PORTS));
        return;
    }
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let port_name = view::text(port, &["name"]);
        if !port_name.is_empty() {
            rules::text(port_name, name::dns1123_label, &path.child("name"), errors);
        }
        if !names.insert(port_name) {
            errors.push(FieldError::duplicate(&path.child("name"), BadValue::named(port_name)));
        }
        let protocol = view::text(port, &["protocol"]);
        rules::one_of(protocol, rules::PROTOCOLS, &path.child("protocol"), errors);
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            rules::text(protocol, name::qualified_name, &path.child("appProtocol"), errors);
        }
    }
}

fn check_endpoint(endpoint: &Value, address_type: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let addresses = view::items(endpoint, &["addresses"]);
    let list = path.child("addresses");
    if addresses.is_empty() {
        errors.push(FieldError::required(&list, "must contain at least 1 address"));
    } else if addresses.len() > MAX_ADDRESSES {
        errors.push(FieldError::too_many(&list, addresses.len(), MAX_ADDRESSES));
    }
    for (index, address) in addresses.iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        match address_type {
            "IPv4" => check_ip(address, true, &list, index, errors),
            "IPv6" => check_ip(address, false, &list, index, errors),
            "FQDN" => check_domain(address, &list.index(index), errors),
            _ => {}
        }
    }
    if let Some(node) = endpoint.get("nodeName").and_then(Value::as_str) {
        rules::text(node, name::dns1123_subdomain, &path.child("nodeName"), errors);
    }
    if let Some(hostname) = endpoint.get("hostname").and_then(Value::as_str) {
        rules::text(hostname, name::dns1123_label, &path.child("hostname"), errors);
    }
    if let Some(hints) = endpoint.get("hints") {
        check_hints(hints, &path.child("hints"), errors);
    }
}

fn check_ip(address: &str, v4: bool, list: &Path<'_>, index: usize, errors: &mut ErrorList) {
    let path = list.index(index);
    // IPv6 addresses have always required the canonical form.
    let found = if v4 { name::ip_in_old_field(&path, address, true) } else { name::ip(&path, address) };
    if !found.is_empty() {
        errors.extend(found);
        return;
    }
    if name::parse_ip_sloppy(address).is_some_and(|ip| ip.is_ipv4() != v4) {
        let detail = if v4 { "must be an IPv4 address" } else { "must be an IPv6 address" };
        errors.push(FieldError::invalid(list, address, detail));
    }
    rules::endpoint_ip(address, &path, errors);
}

fn check_domain(address: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if address.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let domain = address.strip_suffix('.').unwrap_or(address);
    let messages = name::dns1123_subdomain(domain);
    if !messages.is_empty() {
        errors.push(FieldError::invalid(path, domain, messages.join(",")));
    } else if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(path, domain, detail));
    } else if let Some(label) = domain.split('.').find(|label| !name::dns1123_label(label).is_empty()) {
        errors.push(FieldError::invalid(path, label, name::dns1123_label(label).join(",")));
    }
}

fn check_hints(hints: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (field, rule) in
        [("forZones", name::label_value as fn(&str) -> name::Messages), ("forNodes", name::dns1123_subdomain)]
    {
        let path = path.child(field);
        let hints = view::items(hints, &[field]);
        if hints.len() > MAX_HINTS {
            errors.push(FieldError::too_many(&path, hints.len(), MAX_HINTS));
            return;
        }
        let mut names = BTreeSet::new();
        for (index, hint) in hints.iter().enumerate() {
            let path = path.index(index);
            let path = path.child("name");
            let hint_name = view::text(hint, &["name"]);
            if !names.insert(hint_name) {
                errors.push(FieldError::duplicate(&path, hint_name));
            }
            rules::text(hint_name, rule, &path, errors);
        }
    }
}

fn port_cell(port: &Value) -> String {
    match (view::integer(port, &["port"]), port.get("name").and_then(Value::as_str)) {
        (Some(number), _) => number.to_string(),
        (None, Some(port_name)) => port_name.to_owned(),
        (None, None) => "*".to_owned(),
    }
}

fn join_first(mut items: Vec<String>) -> String {
    const MAX: usize = 3;
    let count = items.len();
    items.truncate(MAX);
    rules::or(rules::list_cell(&items, count, MAX), "<unset>")
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let with = |address_type: &str, endpoints: Value, ports: Value| json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "sample", "namespace": "default"}, "addressType": address_type, "endpoints": endpoints, "ports": ports});
    let addresses = |address_type: &str, addresses: Value| {
        with(address_type, json!([{"addresses": addresses}]), json!([]))
    };
    let ports = |ports: Value| with("IPv4", json!([]), ports);
    let invalid = "FieldValueInvalid";
    Samples {
        valid: vec![
            with(
                "IPv4",
                json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "nodeName": "node-1", "hostname": "a", "zone": "z", "hints": {"forZones": [{"name": "z"}], "forNodes": [{"name": "node-1"}]}}]),
                json!([{"name": "http", "port": 80}, {"port": 53, "protocol": "UDP", "appProtocol": "example.com/dns"}]),
            ),
            addresses("IPv6", json!(["2001:db8::1"])),
            addresses("FQDN", json!(["example.com."])),
        ],
        invalid: vec![
            Refused::new(with("", json!([]), json!([])), "addressType", "FieldValueRequired"),
            Refused::new(with("IP", json!([]), json!([])), "addressType", "FieldValueNotSupported"),
            Refused::new(addresses("IPv4", json!([])), "endpoints[0].addresses", "FieldValueRequired"),
            Refused::new(
                addresses("IPv4", json!(vec!["10.0.0.1"; 101])),
                "endpoints[0].addresses",
                "FieldValueTooMany",
            ),
            Refused::new(addresses("IPv4", json!(["2001:db8::1"])), "endpoints[0].addresses", invalid),
            Refused::new(addresses("IPv6", json!(["2001:DB8::1"])), "endpoints[0].addresses[0]", invalid),
            Refused::new(addresses("IPv4", json!(["127.0.0.1"])), "endpoints[0].addresses[0]", invalid),
            Refused::new(addresses("FQDN", json!(["example"])), "endpoints[0].addresses[0]", invalid),
            Refused::new(ports(json!([{"name": "Http"}])), "ports[0].name", invalid),
            Refused::new(ports(json!([{}, {}])), "ports[1].name", "FieldValueDuplicate"),
            Refused::new(ports(json!([{"protocol": "tcp"}])), "ports[0].protocol", "FieldValueNotSupported"),
            Refused::new(
                with(
                    "IPv4",
                    json!([{"addresses": ["10.0.0.1"], "hints": {"forZones": [{"name": "a"}, {"name": "a"}]}}]),
                    json!([]),
                ),
                "endpoints[0].hints.forZones[1].name",
                "FieldValueDuplicate",
            ),
        ],
        updates: vec![json!({"endpoints": []}), json!({"ports": [{"port": 81}]})],
        invalid_updates: vec![Refused::new(json!({"addressType": "IPv6"}), "addressType", invalid)],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn table_row_shows_at_most_three_ports_and_addresses() {
        let slice = json!({"ports": [{"port": 1}, {"name": "n"}, {}], "endpoints": [{"addresses": ["a", "b"]}, {"addresses": ["c", "d"]}]});
        let cells = EndpointSlice.cells(&slice, 0);
        assert_eq!(cells[2..4], [json!("1,n,*"), json!("a,b,c + 1 more...")]);
        assert_eq!(EndpointSlice.cells(&json!({}), 0)[3], "<unset>");
    }

    #[test]
    fn deprecated_topology_is_dropped() {
        let mut slice = json!({"endpoints": [{"addresses": ["10.0.0.1"], "deprecatedTopology": {"a": "b"}}]});
        EndpointSlice.prepare_for_create(&mut slice, Time(0));
        assert_eq!(slice, json!({"endpoints": [{"addresses": ["10.0.0.1"]}]}));
    }
}
