//! Endpoints: backends of a service, in the older and coarser of two APIs; the other is EndpointSlice.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::rules;
use crate::kind::{Column, Declaration, Kind, Scope, texts};
use crate::kinds::ratchet;
use crate::view;

/// Label that names the component that maintains an object.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

/// [`Kind`] of Endpoints objects.
pub struct Endpoints;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    short_names: texts(&["ep"]),
    create_on_update: true,
    deprecated: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".into()),
    columns: vec![
        Column::name(),
        Column::text("Endpoints", "first addresses and ports that are ready"),
        Column::age(),
    ],
    storage_version_hash: "fWeeMqaN/OA=".into(),
    ..Declaration::new("", &["v1"], "Endpoints", "endpoints", "endpoints", Scope::Namespaced)
});

impl Kind for Endpoints {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        let Some(Value::Array(subsets)) = object.get_mut("subsets") else { return };
        for subset in subsets {
            let Some(Value::Array(ports)) = subset.get_mut("ports") else { continue };
            for port in ports {
                if view::text(port, &["protocol"]).is_empty() {
                    port["protocol"] = "TCP".into();
                }
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let list = Path::root("subsets");
        for (index, subset) in view::items(object, &["subsets"]).iter().enumerate() {
            errors.ratcheted(ratchet::SUBSETS, |errors| check_subset(subset, &list.index(index), errors));
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        if view::text(new, &["metadata", "labels", MANAGED_BY]) == "endpoint-controller" {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        let list = Path::root("subsets");
        for (index, subset) in view::items(new, &["subsets"]).iter().enumerate() {
            let path = list.index(index);
            for field in ["addresses", "notReadyAddresses"] {
                let path = path.child(field);
                for (index, address) in view::items(subset, &[field]).iter().enumerate() {
                    let path = path.index(index);
                    warnings.extend(name::ip_warnings(&path.child("ip"), view::text(address, &["ip"])));
                }
            }
        }
        warnings
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        vec![view::name(object).into(), endpoints_cell(object).into(), view::age(object, now)]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        use serde_json::json;

        let valid = &self.samples().valid[0];
        let subsets = |ip: &str| json!([{"addresses": [{"ip": ip}]}]);
        vec![crate::samples::Stored::of(valid, &json!({"subsets": subsets("010.0.0.1")})).refusing(
            json!({"subsets": subsets("010.0.0.2")}),
            "subsets[0].addresses[0].ip",
            "FieldValueInvalid",
        )]
    }
}

fn check_subset(subset: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let lists = ["addresses", "notReadyAddresses"];
    if lists.iter().all(|list| view::items(subset, &[list]).is_empty()) {
        errors.push(FieldError::required(path, "must specify `addresses` or `notReadyAddresses`"));
    }
    for list in lists {
        let path = path.child(list);
        for (index, address) in view::items(subset, &[list]).iter().enumerate() {
            check_address(address, &path.index(index), errors);
        }
    }
    let ports = view::items(subset, &["ports"]);
    let path = path.child("ports");
    for (index, port) in ports.iter().enumerate() {
        check_port(port, ports.len() > 1, &path.index(index), errors);
    }
}

fn check_address(address: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let ip = view::text(address, &["ip"]);
    rules::ip(ip, &path.child("ip"), errors);
    let hostname = view::text(address, &["hostname"]);
    if !hostname.is_empty() {
        rules::text(hostname, name::dns1123_label, &path.child("hostname"), errors);
    }
    if let Some(node) = address.get("nodeName").and_then(Value::as_str) {
        rules::text(node, name::dns1123_subdomain, &path.child("nodeName"), errors);
    }
    rules::endpoint_ip(ip, &path.child("ip"), errors);
}

fn check_port(port: &Value, needs_name: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let port_name = view::text(port, &["name"]);
    if !port_name.is_empty() || needs_name {
        rules::required_text(port_name, name::dns1123_label, &path.child("name"), errors);
    }
    rules::port_number(view::integer(port, &["port"]).unwrap_or(0), &path.child("port"), errors);
    let protocol = view::text(port, &["protocol"]);
    rules::required_one_of(protocol, rules::PROTOCOLS, &path.child("protocol"), errors);
    if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
        rules::text(protocol, name::qualified_name, &path.child("appProtocol"), errors);
    }
}

/// Table cell with the first ready addresses, each with each port.
fn endpoints_cell(object: &Value) -> String {
    const MAX: usize = 3;
    let subsets = view::items(object, &["subsets"]);
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let addresses =
            view::items(subset, &["addresses"]).iter().map(|address| view::text(address, &["ip"]));
        let ports = view::items(subset, &["ports"]);
        if ports.is_empty() {
            all.extend(addresses.clone().map(str::to_owned));
        }
        for port in ports {
            let port = view::integer(port, &["port"]).unwrap_or(0);
            all.extend(addresses.clone().map(|ip| host_port(ip, port)));
        }
    }
    let count = all.len();
    all.truncate(MAX);
    rules::list_cell(&all, count, MAX)
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let with = |subset: Value| json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "sample", "namespace": "default"}, "subsets": [subset]});
    let port = |port: Value| with(json!({"addresses": [{"ip": "10.0.0.1"}], "ports": [port]}));
    let invalid = "FieldValueInvalid";
    Samples {
        valid: vec![
            with(json!({
                "addresses": [{"ip": "10.0.0.1", "hostname": "a", "nodeName": "node-1", "targetRef": {"kind": "Pod", "name": "p"}}],
                "notReadyAddresses": [{"ip": "2001:db8::1"}],
                "ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP", "appProtocol": "example.com/dns"}],
            })),
            with(json!({"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]})),
        ],
        invalid: vec![
            Refused::new(with(json!({})), "subsets[0]", "FieldValueRequired"),
            Refused::new(
                with(json!({"addresses": [{"ip": "10.0.0.1", "hostname": "A"}]})),
                "subsets[0].addresses[0].hostname",
                invalid,
            ),
            Refused::new(
                with(json!({"addresses": [{"ip": "127.0.0.1"}]})),
                "subsets[0].addresses[0].ip",
                invalid,
            ),
            Refused::new(
                with(json!({"notReadyAddresses": [{"ip": "10.0.0.01"}]})),
                "subsets[0].notReadyAddresses[0].ip",
                invalid,
            ),
            Refused::new(port(json!({"port": 0})), "subsets[0].ports[0].port", invalid),
            Refused::new(
                port(json!({"port": 1, "protocol": "tcp"})),
                "subsets[0].ports[0].protocol",
                "FieldValueNotSupported",
            ),
            Refused::new(
                with(
                    json!({"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1, "name": "a"}, {"port": 2}]}),
                ),
                "subsets[0].ports[1].name",
                "FieldValueRequired",
            ),
        ],
        updates: vec![json!({"subsets": null})],
        invalid_updates: vec![Refused::new(json!({"subsets": [{}]}), "subsets[0]", "FieldValueRequired")],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn endpoints_cell_has_at_most_three_addresses() {
        let endpoints = |addresses: &[&str], ports: Value| {
            let addresses: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
            endpoints_cell(&json!({"subsets": [{"addresses": addresses, "ports": ports}]}))
        };
        assert_eq!(endpoints_cell(&json!({})), "<none>");
        assert_eq!(endpoints(&["10.0.0.1"], json!([])), "10.0.0.1");
        assert_eq!(
            endpoints(&["10.0.0.1", "::1"], json!([{"port": 1}, {"port": 2}])),
            "10.0.0.1:1,[::1]:1,10.0.0.1:2 + 1 more..."
        );
    }
}
