//! DNS settings, host names and host ports of a pod spec.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::check;
use super::spec::Owner;
use crate::view;

// Limits of libc's resolver, as in kube-apiserver.
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCH_PATHS: usize = 32;
const MAX_SEARCH_CHARACTERS: usize = 2048;
const MAX_HOSTNAME_BYTES: usize = 64;

/// Requires that host ports equal container ports if the pod uses the host's network.
pub(super) fn host_ports(spec: &Value, owner: Owner<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if !view::is_true(spec, &["hostNetwork"]) {
        return;
    }
    let containers = path.child("containers");
    for (index, container) in view::items(spec, &["containers"]).iter().enumerate() {
        let container_path = containers.index(index);
        let ports = container_path.child("ports");
        for (index, port) in view::items(container, &["ports"]).iter().enumerate() {
            let host_port = view::integer(port, &["hostPort"]).unwrap_or(0);
            let container_port = view::integer(port, &["containerPort"]).unwrap_or(0);
            // Pods of a template get their host ports by default.
            if (owner.is_pod() || host_port != 0) && host_port != container_port {
                let message = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(&ports.index(index).child("hostPort"), host_port, message));
            }
        }
    }
}

pub(super) fn dns_policy(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let allowed = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    check::one_of(spec, "dnsPolicy", allowed, path, errors);
}

pub(super) fn dns_config(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let config = spec.get("dnsConfig");
    if view::text(spec, &["dnsPolicy"]) == "None" {
        if config.is_none() {
            let message = "must provide `dnsConfig` when `dnsPolicy` is None";
            return errors.push(FieldError::required(path, message));
        }
        if view::items(spec, &["dnsConfig", "nameservers"]).is_empty() {
            let message = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.push(FieldError::required(&path.child("nameservers"), message));
        }
    }
    let Some(config) = config else { return };
    nameservers(config, &path.child("nameservers"), errors);
    searches(config, &path.child("searches"), errors);
    let options = path.child("options");
    for (index, option) in view::items(config, &["options"]).iter().enumerate() {
        if view::text(option, &["name"]).is_empty() {
            errors.push(FieldError::required(&options.index(index), "must not be empty"));
        }
    }
}

fn nameservers(config: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let servers = view::items(config, &["nameservers"]);
    if servers.len() > MAX_NAMESERVERS {
        let message = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.push(FieldError::invalid(path, list(servers), message));
    }
    for (index, server) in servers.iter().enumerate() {
        let server = server.as_str().unwrap_or_default();
        errors.extend(name::ip_in_old_field(&path.index(index), server, true));
    }
}

fn searches(config: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let searches = view::items(config, &["searches"]);
    if searches.len() > MAX_SEARCH_PATHS {
        let message = format!("must not have more than {MAX_SEARCH_PATHS} search paths");
        errors.push(FieldError::invalid(path, list(searches), message));
    }
    let characters: usize = searches.iter().filter_map(Value::as_str).map(|search| search.len() + 1).sum();
    if characters > MAX_SEARCH_CHARACTERS + 1 {
        let message = format!(
            "must not have more than {MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        );
        errors.push(FieldError::invalid(path, list(searches), message));
    }
    for (index, search) in searches.iter().filter_map(Value::as_str).enumerate() {
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            let messages = name::dns1123_subdomain_with_underscore(search);
            check::push_all(search, messages, &path.index(index), errors);
        }
    }
}

fn list(items: &[Value]) -> BadValue {
    BadValue::json(&Value::Array(items.to_vec()))
}

pub(super) fn host_aliases(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (index, alias) in view::items(spec, &["hostAliases"]).iter().enumerate() {
        let path = path.index(index);
        errors.extend(name::ip_in_old_field(&path.child("ip"), view::text(alias, &["ip"]), true));
        let hostnames = path.child("hostnames");
        for (index, hostname) in view::items(alias, &["hostnames"]).iter().enumerate() {
            check::dns_subdomain(hostname.as_str().unwrap_or_default(), &hostnames.index(index), errors);
        }
    }
}

pub(super) fn hostname_override(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(hostname) = spec.get("hostnameOverride").and_then(Value::as_str) else { return };
    let path = path.child("hostnameOverride");
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if view::is_true(spec, &[field]) {
            let message = format!("may not be specified when {field} is true");
            errors.push(FieldError::forbidden(&path, message));
        }
    }
    if hostname.len() > MAX_HOSTNAME_BYTES {
        errors.push(FieldError::too_long(&path, MAX_HOSTNAME_BYTES));
    }
    check::dns_subdomain(hostname, &path, errors);
}
