//! ResourceClaimTemplate: a template of the claims that are created for each pod.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, Path};
use serde_json::Value;

use super::{admin_access, device_requests};
use crate::kind::{Declaration, Kind, NamespaceLabel, Scope};
use crate::kinds::core::pod_spec::claim_template::validate_template_metadata;
use crate::kinds::rules;
use crate::view;

/// [`Kind`] of ResourceClaimTemplate objects.
pub struct ResourceClaimTemplate;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    deletion_returns_object: true,
    storage_version_hash: "TuzjC49aUfM=".into(),
    ..Declaration::new(
        "resource.k8s.io",
        &["v1"],
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
        "resourceclaimtemplate",
        Scope::Namespaced,
    )
});

impl Kind for ResourceClaimTemplate {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        device_requests::set_defaults(object, "/spec/spec/devices");
    }

    fn needed_namespace_label(
        &self,
        new: &Value,
        old: Option<&Value>,
        _subresource: &str,
    ) -> Option<NamespaceLabel> {
        let requests = view::items(new, &["spec", "spec", "devices", "requests"]);
        if old.is_none() { admin_access::of_requests(requests) } else { None }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let metadata = view::at(object, &["spec", "metadata"]);
        validate_template_metadata(metadata, &path.child("metadata"), errors);
        if let Some(devices) = view::at(object, &["spec", "spec", "devices"]) {
            device_requests::check(devices, &path.child("spec.devices"), errors);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        rules::unchanged(
            "@resource.ResourceClaimTemplateSpec",
            &Path::root("spec"),
            new.get("spec"),
            old.get("spec"),
            errors,
        );
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{namespaced, with};
    use crate::samples::{Refused, Samples};

    let spec = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"devices": device_requests::sample()}});
    let valid = namespaced("resource.k8s.io/v1", "ResourceClaimTemplate", json!({"spec": spec}));
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    Samples {
        invalid: vec![
            refused(
                "/spec/metadata/labels",
                json!({"a b": "c"}),
                "spec.metadata.labels",
                "FieldValueInvalid",
            ),
            refused(
                "/spec/metadata/annotations",
                json!({"a b": "c"}),
                "spec.metadata.annotations",
                "FieldValueInvalid",
            ),
            refused(
                "/spec/metadata/generateName",
                json!("a-"),
                "spec.metadata.generateName",
                "FieldValueForbidden",
            ),
            refused("/spec/metadata/uid", json!("a"), "spec.metadata.uID", "FieldValueForbidden"),
            refused(
                "/spec/metadata/ownerReferences",
                json!([{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]),
                "spec.metadata.ownerReferences",
                "FieldValueForbidden",
            ),
            refused(
                "/spec/spec/devices/requests/0/name",
                json!("A"),
                "spec.spec.devices.requests[0].name",
                "FieldValueInvalid",
            ),
            refused(
                "/spec/spec/devices/config/0/opaque",
                Value::Null,
                "spec.spec.devices.config[0].opaque",
                "FieldValueRequired",
            ),
        ],
        valid: vec![valid],
        updates: vec![json!({"metadata": {"labels": {"a": "b"}}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"metadata": {"labels": {"c": "d"}}}}),
            "spec",
            "FieldValueInvalid",
        )],
    }
}
