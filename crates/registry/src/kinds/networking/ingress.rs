//! Ingress: routes requests from outside the cluster to services.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::time::Time;
use serde_json::Value;

use super::ingress_class::check_local_reference;
use crate::kind::{Column, Declaration, Generation, Kind, Scope, Subresource, texts};
use crate::kinds::core::rules;
use crate::kinds::ratchet;
use crate::{internal_types, view};

/// Annotation that preceded the field `ingressClassName`.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// [`Kind`] of Ingress objects.
pub struct Ingress;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    short_names: texts(&["ing"]),
    subresources: vec![Subresource::status("Ingress")],
    generation: Generation::Spec,
    columns: vec![
        Column::name(),
        Column::text("Class", "ingress class"),
        Column::text("Hosts", "first hosts of the rules"),
        Column::text("Address", "addresses of the load balancer"),
        Column::text("Ports", "ports of the load balancer"),
        Column::age(),
    ],
    storage_version_hash: "39NQlfNR+bo=".into(),
    ..Declaration::new("networking.k8s.io", &["v1"], "Ingress", "ingresses", "ingress", Scope::Namespaced)
});

impl Kind for Ingress {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        rules::set_load_balancer_default(object);
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        rules::set_load_balancer_default(object);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let default_backend = view::at(object, &["spec", "defaultBackend"]);
        let rules = view::items(object, &["spec", "rules"]);
        if rules.is_empty() && default_backend.is_none() {
            let value =
                internal_types::printed("[@networking.IngressRule", view::at(object, &["spec", "rules"]));
            let detail = "either `defaultBackend` or `rules` must be specified";
            errors.push(FieldError::invalid(&path, value, detail));
        }
        if let Some(backend) = default_backend {
            check_backend(backend, &path.child("defaultBackend"), errors);
        }
        let list = path.child("rules");
        for (index, rule) in rules.iter().enumerate() {
            check_rule(rule, &list.index(index), errors);
        }
        let list = path.child("tls");
        for (index, tls) in view::items(object, &["spec", "tls"]).iter().enumerate() {
            check_tls(tls, &list.index(index), errors);
        }
        if let Some(class) = class(object) {
            rules::text(class, name::dns1123_subdomain, &path.child("ingressClassName"), errors);
        }
    }

    fn validate_create(&self, object: &Value, errors: &mut ErrorList) {
        check_annotated_class(object, errors);
    }

    fn validate_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let mut found = ErrorList::new();
        check_status(new, &mut found);
        found.forgive(new, old, check_status);
        errors.extend(found);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() || annotated_class(new).is_none() || class(new).is_some() {
            return Vec::new();
        }
        vec![format!(
            "annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
        )]
    }

    fn status_warnings(&self, new: &Value) -> Vec<String> {
        rules::load_balancer_status_warnings(new)
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let ports = if view::items(object, &["spec", "tls"]).is_empty() { "80" } else { "80, 443" };
        vec![
            view::name(object).into(),
            class(object).unwrap_or("<none>").into(),
            hosts_cell(view::items(object, &["spec", "rules"])).into(),
            rules::load_balancer_cell(object).into(),
            ports.into(),
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
        let wildcard = json!([{"host": "*.example.com", "http": {"paths": []}}]);
        vec![
            crate::samples::Stored::of(valid, &json!({"spec": {"tls": [{"secretName": "No Name"}]}})),
            crate::samples::Stored::of(valid, &json!({"spec": {"rules": wildcard}})).refusing(
                json!({"spec": {"rules": [{"host": "example.com", "http": {"paths": []}}]}}),
                "spec.rules[0].http.paths",
                "FieldValueRequired",
            ),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn warned_samples(&self) -> Vec<crate::samples::Warned> {
        use serde_json::json;

        let valid = &self.samples().valid[0];
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "010.0.0.1"}]}}});
        vec![crate::samples::Warned::status(
            crate::samples::merged(valid, &status),
            &[
                "status.loadBalancer.ingress[0]: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\"",
            ],
        )]
    }
}

fn check_status(object: &Value, errors: &mut ErrorList) {
    if let Some(status) = view::at(object, &["status", "loadBalancer"]) {
        rules::load_balancer_status(status, false, &Path::root("status.loadBalancer"), errors);
    }
}

/// Rejects a new ingress whose annotation and field name different classes.
fn check_annotated_class(object: &Value, errors: &mut ErrorList) {
    if let (Some(annotated), Some(class)) = (annotated_class(object), class(object))
        && annotated != class
    {
        let path = Path::root("annotations");
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(&path.child(CLASS_ANNOTATION), annotated, detail));
    }
}

fn class(object: &Value) -> Option<&str> {
    view::at(object, &["spec", "ingressClassName"]).and_then(Value::as_str)
}

fn annotated_class(object: &Value) -> Option<&str> {
    view::at(object, &["metadata", "annotations", CLASS_ANNOTATION]).and_then(Value::as_str)
}

fn check_rule(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let host = view::text(rule, &["host"]);
    if !host.is_empty() {
        let path = path.child("host");
        rules::not_an_ip(host, &path, errors);
        check_host(host, &path, errors);
    }
    if host.contains('*') {
        errors.ratcheted(ratchet::WILDCARD_HOST_RULE, |errors| check_paths(rule, path, errors));
    } else {
        check_paths(rule, path, errors);
    }
}

fn check_paths(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(http) = rule.get("http") else { return };
    let path = path.child("http");
    let list = path.child("paths");
    let paths = view::items(http, &["paths"]);
    if paths.is_empty() {
        errors.push(FieldError::required(&list, ""));
    }
    for (index, http_path) in paths.iter().enumerate() {
        check_path(http_path, &list.index(index), errors);
    }
}

fn check_host(host: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if host.contains('*') {
        rules::text(host, name::wildcard_dns1123_subdomain, path, errors);
    } else {
        rules::text(host, name::dns1123_subdomain, path, errors);
    }
}

fn check_path(http_path: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(path_type) = http_path.get("pathType").and_then(Value::as_str) else {
        errors.push(FieldError::required(&path.child("pathType"), "pathType must be specified"));
        return;
    };
    let value = view::text(http_path, &["path"]);
    let value_path = path.child("path");
    let mut refuse = |detail: String| errors.push(FieldError::invalid(&value_path, value, detail));
    let absolute = value.starts_with('/');
    match path_type {
        "Exact" | "Prefix" => {
            if !absolute {
                refuse("must be an absolute path".to_owned());
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if value.contains(part) {
                    refuse(format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if value.ends_with(end) {
                    refuse(format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !value.is_empty() && !absolute {
                refuse("must be an absolute path".to_owned());
            }
        }
        other => {
            let allowed = &["Exact", "ImplementationSpecific", "Prefix"];
            rules::one_of(other, allowed, &path.child("pathType"), errors);
        }
    }
    let nothing = Value::Null;
    check_backend(http_path.get("backend").unwrap_or(&nothing), &path.child("backend"), errors);
}

fn check_backend(backend: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match (backend.get("resource"), backend.get("service")) {
        (Some(_), Some(_)) => {
            errors.push(FieldError::invalid(path, "", "cannot set both resource and service backends"));
        }
        (Some(resource), None) => check_local_reference(resource, &path.child("resource"), errors),
        (None, Some(service)) => check_service(service, path, errors),
        (None, None) => {
            errors.push(FieldError::invalid(path, "", "resource or service backend is required"));
        }
    }
}

fn check_service(service: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let service_path = path.child("service");
    let service_name = view::text(service, &["name"]);
    rules::required_text(service_name, name::dns1123_label, &service_path.child("name"), errors);
    let port_path = service_path.child("port");
    let port_name = view::text(service, &["port", "name"]);
    match (port_name, view::integer(service, &["port", "number"]).unwrap_or(0)) {
        ("", 0) => errors.push(FieldError::required(path, "port name or number is required")),
        ("", number) => rules::port_number(number, &port_path.child("number"), errors),
        (port_name, 0) => rules::text(port_name, name::port_name, &port_path.child("name"), errors),
        _ => errors.push(FieldError::invalid(path, "", "cannot set both port name & port number")),
    }
}

fn check_tls(tls: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let list = path.child("hosts");
    for (index, host) in view::items(tls, &["hosts"]).iter().enumerate() {
        check_host(host.as_str().unwrap_or_default(), &list.index(index), errors);
    }
    let secret = view::text(tls, &["secretName"]);
    if !secret.is_empty() {
        errors.ratcheted(ratchet::TLS_SECRET_NAME, |errors| {
            rules::text(secret, name::dns1123_subdomain, &path.child("secretName"), errors);
        });
    }
}

/// Formats the first hosts for a table cell. Rules without a host count, but are not shown.
fn hosts_cell(rules: &[Value]) -> String {
    const MAX: usize = 3;
    let mut hosts = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= hosts.len() == MAX;
        let host = view::text(rule, &["host"]);
        if !more && !host.is_empty() {
            hosts.push(host.to_owned());
        }
    }
    if hosts.is_empty() {
        return "*".to_owned();
    }
    rules::list_cell(&hosts, if more { rules.len() } else { 0 }, MAX)
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let with = |spec: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "sample", "namespace": "default"}, "spec": spec});
    let service = json!({"service": {"name": "s", "port": {"number": 80}}});
    let backend = |backend: Value| with(json!({"defaultBackend": backend}));
    let path = |path: Value| with(json!({"rules": [{"http": {"paths": [path]}}]}));
    let rule = |rule: Value| with(json!({"rules": [rule]}));
    let (invalid, required) = ("FieldValueInvalid", "FieldValueRequired");
    let first = "spec.rules[0].http.paths[0].path";
    Samples {
        valid: vec![
            with(json!({
                "ingressClassName": "nginx",
                "defaultBackend": {"resource": {"apiGroup": "example.com", "kind": "Bucket", "name": "b"}},
                "rules": [
                    {"host": "example.com", "http": {"paths": [{"path": "/a", "pathType": "Prefix", "backend": service}]}},
                    {"host": "*.example.com"},
                ],
                "tls": [{"hosts": ["example.com"], "secretName": "tls"}],
            })),
            backend(json!({"service": {"name": "1s", "port": {"name": "http"}}})),
        ],
        invalid: vec![
            Refused::new(with(json!({})), "spec", invalid),
            Refused::new(backend(json!({})), "spec.defaultBackend", invalid),
            Refused::new(backend(json!({"service": {"name": "s"}})), "spec.defaultBackend", required),
            Refused::new(
                backend(json!({"service": {"port": {"number": 1}}})),
                "spec.defaultBackend.service.name",
                required,
            ),
            Refused::new(rule(json!({"host": "10.0.0.1"})), "spec.rules[0].host", invalid),
            Refused::new(rule(json!({"host": "a.*.b"})), "spec.rules[0].host", invalid),
            Refused::new(rule(json!({"http": {"paths": []}})), "spec.rules[0].http.paths", required),
            Refused::new(path(json!({"backend": service})), "spec.rules[0].http.paths[0].pathType", required),
            Refused::new(path(json!({"pathType": "Exact", "path": "a", "backend": service})), first, invalid),
            Refused::new(
                path(json!({"pathType": "Exact", "path": "/a/..", "backend": service})),
                first,
                invalid,
            ),
            Refused::new(
                path(json!({"pathType": "Some", "backend": service})),
                "spec.rules[0].http.paths[0].pathType",
                "FieldValueNotSupported",
            ),
            Refused::new(
                with(json!({"defaultBackend": service, "tls": [{"secretName": "A"}]})),
                "spec.tls[0].secretName",
                invalid,
            ),
        ],
        updates: vec![json!({"spec": {"ingressClassName": "other"}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"ingressClassName": "A"}}),
            "spec.ingressClassName",
            invalid,
        )],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hosts_cell_has_at_most_three_hosts() {
        let hosts = |hosts: &[&str]| {
            let rules: Vec<_> = hosts.iter().map(|host| json!({"host": host})).collect();
            hosts_cell(&rules)
        };
        assert_eq!(hosts(&[""]), "*");
        assert_eq!(hosts(&["a", "b", "c"]), "a,b,c");
        assert_eq!(hosts(&["a", "b", "c", "d", ""]), "a,b,c + 2 more...");
    }

    #[test]
    fn new_ingress_with_two_classes_is_rejected() {
        let ingress =
            |class: Value| json!({"metadata": {"annotations": {CLASS_ANNOTATION: "a"}}, "spec": class});
        let mut errors = ErrorList::new();
        check_annotated_class(&ingress(json!({"ingressClassName": "a"})), &mut errors);
        assert!(errors.is_empty());
        check_annotated_class(&ingress(json!({"ingressClassName": "b"})), &mut errors);
        assert_eq!(
            errors.to_string(),
            r#"annotations.kubernetes.io/ingress.class: Invalid value: "a": must match `ingressClassName` when both are specified"#
        );
        assert_eq!(Ingress.warnings(&ingress(json!({})), None).len(), 1);
    }
}
