//! IPAddress: an address that is allocated to a service; the address is the name.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::{Value, json};

use crate::kind::{Column, Declaration, Kind, NameRule, Scope, texts};
use crate::kinds::core::rules;
use crate::view;

/// [`Kind`] of IPAddress objects.
pub struct IpAddress;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    short_names: texts(&["ip"]),
    names: NameRule::IpAddress,
    columns: vec![Column::name(), Column::text("ParentRef", "object that the address is allocated to")],
    storage_version_hash: "3f/plJFChNE=".into(),
    ..Declaration::new("networking.k8s.io", &["v1"], "IPAddress", "ipaddresses", "ipaddress", Scope::Cluster)
});

impl Kind for IpAddress {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec.parentRef");
        let Some(parent) = view::at(object, &["spec", "parentRef"]) else {
            errors.push(FieldError::required(&path, ""));
            return;
        };
        let field = |name: &str| view::text(parent, &[name]);
        if !field("group").is_empty() {
            rules::text(field("group"), name::dns1123_subdomain, &path.child("group"), errors);
        }
        for required in ["resource", "name"] {
            let path = path.child(required);
            rules::required_text(field(required), name::path_segment_name, &path, errors);
        }
        rules::text(field("namespace"), name::path_segment_name, &path.child("namespace"), errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let parent = ["spec", "parentRef"];
        let path = Path::root("spec.parentRef");
        rules::immutable(
            "*@networking.ParentReference",
            view::at(new, &parent),
            view::at(old, &parent),
            &path,
            errors,
        );
    }

    /// The age has a cell but no column, as in kube-apiserver.
    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let parent = view::at(object, &["spec", "parentRef"]).map(parent_cell);
        let parent = parent.unwrap_or_else(|| "<none>".to_owned());
        vec![view::name(object).into(), parent.into(), view::age(object, now)]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// Name of the allocator of service addresses.
const ALLOCATOR: &str = "ipallocator.k8s.io";

/// Returns the IPAddress object for an address of a service. Fields that the server sets get their values when it is
/// written.
pub(crate) fn of_service(ip: &str, namespace: &str, name: &str) -> Value {
    let family = if ip.contains(':') { "IPv6" } else { "IPv4" };
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": ip,
            "labels": {
                "ipaddress.kubernetes.io/ip-family": family,
                "ipaddress.kubernetes.io/managed-by": ALLOCATOR,
            },
            "managedFields": [{
                "apiVersion": "networking.k8s.io/v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {
                    "f:metadata": {"f:labels": {
                        ".": {},
                        "f:ipaddress.kubernetes.io/ip-family": {},
                        "f:ipaddress.kubernetes.io/managed-by": {},
                    }},
                    "f:spec": {"f:parentRef": {".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}}},
                },
                "manager": "kube-apiserver",
                "operation": "Update",
            }],
        },
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": name}},
    })
}

fn parent_cell(parent: &Value) -> String {
    let field = |name: &str| view::text(parent, &[name]);
    let mut cell = field("resource").to_lowercase();
    if !field("group").is_empty() {
        cell = format!("{cell}.{}", field("group").to_lowercase());
    }
    if !field("namespace").is_empty() {
        cell = format!("{cell}/{}", field("namespace"));
    }
    format!("{cell}/{}", field("name"))
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::samples::{Refused, Samples};

    let with = |spec: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": "10.0.0.1"}, "spec": spec});
    let parent = |parent: Value| with(json!({"parentRef": parent}));
    let (invalid, required) = ("FieldValueInvalid", "FieldValueRequired");
    Samples {
        valid: vec![parent(json!({"resource": "services", "namespace": "default", "name": "sample"}))],
        invalid: vec![
            Refused::new(with(json!({})), "spec.parentRef", required),
            Refused::new(parent(json!({"name": "a"})), "spec.parentRef.resource", required),
            Refused::new(parent(json!({"resource": "services"})), "spec.parentRef.name", required),
            Refused::new(parent(json!({"resource": "a/b", "name": "a"})), "spec.parentRef.resource", invalid),
            Refused::new(
                parent(json!({"group": "A", "resource": "b", "name": "a"})),
                "spec.parentRef.group",
                invalid,
            ),
        ],
        updates: vec![json!({"metadata": {"labels": {"a": "b"}}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"parentRef": {"name": "b"}}}),
            "spec.parentRef",
            invalid,
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_row_shows_the_parent() {
        let cell = |parent: Value| IpAddress.cells(&json!({"spec": {"parentRef": parent}}), 0)[1].clone();
        assert_eq!(cell(json!({"resource": "services", "namespace": "n", "name": "s"})), "services/n/s");
        assert_eq!(cell(json!({"resource": "gateways", "group": "Gw.io", "name": "g"})), "gateways.gw.io/g");
        assert_eq!(IpAddress.cells(&json!({}), 0)[1], "<none>");
    }
}
