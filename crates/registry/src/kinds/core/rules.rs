//! Validation rules shared by fields of many kinds, with the messages of kube-apiserver.
//!
//! They cover ports, addresses, load balancers, and texts in general. A rule of a single kind is in that kind's file.
//! Fields that kube-apiserver validated less strictly in the past are validated strictly here: there are no objects
//! from that past.

use std::borrow::Cow;
use std::net::IpAddr;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name::{self, Messages};
use coracle_meta::object::validate_labels;
use serde_json::{Map, Value};

use crate::kinds::ratchet;
use crate::{internal_types, view};

/// Message for a change of an immutable field.
pub(crate) const IMMUTABLE: &str = "field is immutable";

/// Protocols of ports, as messages list them.
pub(crate) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Validates a text by one of the rules of [`coracle_meta::name`].
pub(crate) fn text(value: &str, rule: fn(&str) -> Messages, path: &Path<'_>, errors: &mut ErrorList) {
    errors.extend(rule(value).into_iter().map(|message| FieldError::invalid(path, value, message)));
}

/// Like [`text`], for a required field.
pub(crate) fn required_text(
    value: &str,
    rule: fn(&str) -> Messages,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        text(value, rule, path, errors);
    }
}

/// Requires that the named fields of an object are not empty.
pub(crate) fn required_fields(object: &Value, names: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    for name in names {
        if view::text(object, &[name]).is_empty() {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
}

/// Requires one of the allowed values, which must be given in ascending order.
pub(crate) fn one_of(value: &str, allowed: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    if !allowed.contains(&value) {
        errors.push(FieldError::not_supported(path, BadValue::named(value), allowed));
    }
}

/// Like [`one_of`], for a required field.
pub(crate) fn required_one_of(value: &str, allowed: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        one_of(value, allowed, path, errors);
    }
}

/// Rejects a change of a field, whose type in [`internal_types`] is `shape`. Absent texts equal empty ones.
pub(crate) fn immutable(
    shape: &str,
    new: Option<&Value>,
    old: Option<&Value>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if !same(new, old) {
        errors.push(FieldError::invalid(path, internal_types::printed(shape, new), IMMUTABLE));
    }
}

/// Returns true if two fields are semantically equal: empty equals absent.
pub(crate) fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    let meant = |value: Option<&Value>| value.filter(|value| !is_empty(value)).cloned();
    meant(one) == meant(other)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Validates keys and values of the labels at a path of an object.
pub(crate) fn labels(object: &Value, field: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    let labels = view::fields(object, field);
    let labels = labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    errors.extend(validate_labels(labels, path));
}

/// Formats a map of labels for a table cell.
pub(crate) fn labels_cell(object: &Value, field: &[&str]) -> String {
    let labels = view::fields(object, field);
    let labels: Vec<_> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    or(labels.join(","), "<none>")
}

/// Returns the text, or `otherwise` if it is empty.
pub(crate) fn or<'a>(text: impl Into<Cow<'a, str>>, otherwise: &'a str) -> String {
    let text = text.into();
    if text.is_empty() { otherwise.to_owned() } else { text.into_owned() }
}

/// Joins the first items with commas, and adds the number of omitted ones.
pub(crate) fn list_cell(items: &[String], count: usize, max: usize) -> String {
    let joined = items.join(",");
    if count > max { format!("{joined} + {} more...", count - max) } else { joined }
}

/// Validates a port number or name.
pub(crate) fn port_number_or_name(port: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    match port {
        Some(Value::String(port)) => text(port, name::port_name, path, errors),
        port => port_number(port.and_then(Value::as_i64).unwrap_or(0), path, errors),
    }
}

/// Validates a port number.
pub(crate) fn port_number(port: i64, path: &Path<'_>, errors: &mut ErrorList) {
    errors
        .extend(name::port_number(port).into_iter().map(|message| FieldError::invalid(path, port, message)));
}

/// Validates an IP address. Returns true if it is valid.
pub(crate) fn ip(value: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let found = name::ip_in_old_field(path, value, true);
    let fine = found.is_empty();
    errors.extend(found);
    fine
}

/// Validates a CIDR block. Returns true if it is valid.
pub(crate) fn cidr(value: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let found = name::cidr_in_old_field(path, value, true);
    let fine = found.is_empty();
    errors.extend(found);
    fine
}

/// Rejects addresses that other machines cannot reach.
pub(crate) fn endpoint_ip(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(ip) = name::parse_ip_sloppy(value) else {
        errors.push(FieldError::invalid(path, value, "must be a valid IP address"));
        return;
    };
    let mut refuse = |detail: String| errors.push(FieldError::invalid(path, value, detail));
    if ip.is_unspecified() {
        refuse(format!("may not be unspecified ({value})"));
    }
    if ip.is_loopback() {
        refuse("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    if is_link_local(ip) {
        refuse("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if is_link_local_multicast(ip) {
        refuse("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(ip) => ip.octets()[0] == 0xff && ip.octets()[1] & 0x0f == 2,
    }
}

/// Validates the load balancer status of services and ingresses; services also
/// have `ipMode` per address.
pub(crate) fn load_balancer_status(
    status: &Value,
    with_ip_mode: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let list = path.child("ingress");
    for (index, ingress) in view::items(status, &["ingress"]).iter().enumerate() {
        let path = list.index(index);
        let address = view::text(ingress, &["ip"]);
        if !address.is_empty() {
            errors.ratcheted(ratchet::LOAD_BALANCER_IP, |errors| {
                ip(address, &path.child("ip"), errors);
            });
        }
        if with_ip_mode {
            check_ip_mode(ingress, address, &path.child("ipMode"), errors);
        }
        let hostname = view::text(ingress, &["hostname"]);
        if !hostname.is_empty() {
            let path = path.child("hostname");
            text(hostname, name::dns1123_subdomain, &path, errors);
            not_an_ip(hostname, &path, errors);
        }
    }
}

fn check_ip_mode(ingress: &Value, address: &str, path: &Path<'_>, errors: &mut ErrorList) {
    match ingress.get("ipMode").and_then(Value::as_str) {
        None if address.is_empty() => {}
        None => errors.push(FieldError::required(path, "must be specified when `ip` is set")),
        Some(_) if address.is_empty() => {
            errors.push(FieldError::forbidden(path, "may not be specified when `ip` is not set"));
        }
        Some(mode) => one_of(mode, &["Proxy", "VIP"], path, errors),
    }
}

/// Rejects an IP address where a DNS name is expected.
pub(crate) fn not_an_ip(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if name::parse_ip_sloppy(value).is_some() {
        errors.push(FieldError::invalid(path, value, "must be a DNS name, not an IP address"));
    }
}

/// Returns warnings about addresses in the load balancer status that are not in canonical form.
pub(crate) fn load_balancer_status_warnings(object: &Value) -> Vec<String> {
    let list = Path::root("status.loadBalancer.ingress");
    let ingresses = view::items(object, &["status", "loadBalancer", "ingress"]).iter().enumerate();
    ingresses
        .map(|(index, ingress)| (index, view::text(ingress, &["ip"])))
        .filter(|(_, ip)| !ip.is_empty())
        .flat_map(|(index, ip)| name::ip_warnings(&list.index(index), ip))
        .collect()
}

/// Sets an empty load balancer status, which is always present in kinds that have this field.
pub(crate) fn set_load_balancer_default(object: &mut Value) {
    view::set_default(object, "status", || Value::Object(Map::new()));
    view::set_default(&mut object["status"], "loadBalancer", || Value::Object(Map::new()));
}

/// Formats the addresses of a load balancer for a table cell.
pub(crate) fn load_balancer_cell(object: &Value) -> String {
    let mut addresses: Vec<&str> = view::items(object, &["status", "loadBalancer", "ingress"])
        .iter()
        .map(|ingress| (view::text(ingress, &["ip"]), view::text(ingress, &["hostname"])))
        .map(|(ip, hostname)| if ip.is_empty() { hostname } else { ip })
        .filter(|address| !address.is_empty())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn validation_error(ip: &str) -> String {
        let mut errors = ErrorList::new();
        endpoint_ip(ip, &Path::root("ip"), &mut errors);
        errors.to_string()
    }

    #[test]
    fn unreachable_address_is_rejected() {
        assert_eq!(validation_error("10.0.0.1"), "");
        assert_eq!(
            validation_error("0.0.0.0"),
            r#"ip: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)"#
        );
        assert!(validation_error("127.0.0.2").contains("loopback"));
        assert!(validation_error("fe80::1").contains("link-local range"));
        assert!(validation_error("ff02::1").contains("link-local multicast"));
        assert!(validation_error("x").contains("must be a valid IP address"));
    }

    #[test]
    fn empty_field_equals_absent_field() {
        assert!(same(Some(&json!("")), None) && same(None, Some(&json!([]))));
        assert!(!same(Some(&json!("a")), None));
    }
}
