//! VolumeAttachment: a request to attach a volume to a node, and its status.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::{driver_name, parameters};
use crate::kind::{Column, Declaration, Kind, Scope, StatusMetadata, Subresource};
use crate::kinds::core::persistent_volume;
use crate::kinds::rules;
use crate::view;

/// Maximum length of an error message, as in kube-apiserver.
const ERROR_MESSAGE_MAX_LENGTH: usize = 1024;

/// [`Kind`] of VolumeAttachment objects.
pub struct VolumeAttachment;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    checks_metadata_change_again: false,
    metadata_checks: 1,
    subresources: vec![Subresource::status("VolumeAttachment")],
    status_metadata: StatusMetadata::Kept,
    unconditional_update: false,
    deletion_returns_object: true,
    columns: vec![
        Column::name(),
        Column { format: "name".into(), ..Column::text("Attacher", "the driver that attaches it") },
        Column::text("PV", "the volume"),
        Column::text("Node", "the node"),
        Column::boolean("Attached", "whether it is attached"),
        Column::age(),
    ],
    storage_version_hash: "tJx/ezt6UDU=".into(),
    ..Declaration::new(
        "storage.k8s.io",
        &["v1"],
        "VolumeAttachment",
        "volumeattachments",
        "volumeattachment",
        Scope::Cluster,
    )
});

impl Kind for VolumeAttachment {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        if let Some(spec) = object.pointer_mut("/spec/source/inlineVolumeSpec") {
            persistent_volume::set_source_defaults(spec);
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        driver_name(&Path::root("spec.attacher"), view::text(object, &["spec", "attacher"]), errors);
        check_source(object, errors);
        let node = view::text(object, &["spec", "nodeName"]);
        rules::each_message(&Path::root("spec.nodeName"), node, name::dns1123_subdomain(node), errors);
        check_status(object, errors);
        let volume = ["spec", "source", "persistentVolumeName"];
        if let Some(volume) = view::at(object, &volume).and_then(Value::as_str) {
            let path = Path::root("spec.source.persistentVolumeName");
            rules::each_message(&path, volume, name::dns1123_subdomain(volume), errors);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        rules::unchanged(
            "@storage.VolumeAttachmentSpec",
            &Path::root("spec"),
            new.get("spec"),
            old.get("spec"),
            errors,
        );
    }

    fn validate_status_update(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        self.validate(new, errors);
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        vec![
            view::name(object).into(),
            view::text(object, &["spec", "attacher"]).into(),
            view::text(object, &["spec", "source", "persistentVolumeName"]).into(),
            view::text(object, &["spec", "nodeName"]).into(),
            view::is_true(object, &["status", "attached"]).into(),
            view::age(object, now),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

fn check_source(object: &Value, errors: &mut ErrorList) {
    let path = Path::root("spec.source");
    let inline = view::at(object, &["spec", "source", "inlineVolumeSpec"]);
    let volume = view::at(object, &["spec", "source", "persistentVolumeName"]).and_then(Value::as_str);
    let exactly_one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (inline, volume) {
        (None, None) => errors.push(FieldError::required(&path, exactly_one)),
        (Some(_), Some(_)) => errors.push(FieldError::forbidden(&path, exactly_one)),
        (None, Some("")) => {
            let detail = "must specify non empty persistentVolumeName";
            errors.push(FieldError::required(&path.child("persistentVolumeName"), detail));
        }
        _ => {}
    }
}

fn check_status(object: &Value, errors: &mut ErrorList) {
    let path = Path::root("status");
    if parameters::total_bytes(object, &["status", "attachmentMetadata"]) > parameters::MAX_TOTAL_BYTES {
        let path = path.child("attachmentMetadata");
        errors.push(FieldError::too_long(&path, parameters::MAX_TOTAL_BYTES));
    }
    for field in ["attachError", "detachError"] {
        let path = path.child(field);
        let message = view::text(object, &["status", field, "message"]);
        if message.len() > ERROR_MESSAGE_MAX_LENGTH {
            // kube-apiserver reports the other limit here.
            errors.push(FieldError::too_long(&path.child("message"), parameters::MAX_TOTAL_BYTES));
        }
        let code = view::integer(object, &["status", field, "errorCode"]);
        if let Some(code) = code.filter(|code| *code < 0) {
            let detail = format!("must be between 0 and {}, inclusive", i32::MAX);
            errors.push(FieldError::invalid(&path.child("errorCode"), code, detail));
        }
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let valid = cluster(
        "storage.k8s.io/v1",
        "VolumeAttachment",
        json!({"spec": {
            "attacher": "disk.example.com",
            "nodeName": "node-1",
            "source": {"persistentVolumeName": "volume-1"},
        }}),
    );
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let both = json!({"persistentVolumeName": "a", "inlineVolumeSpec": {}});
    Samples {
        invalid: vec![
            refused("/spec/attacher", json!(""), "spec.attacher", "FieldValueRequired"),
            refused("/spec/attacher", json!("a_b"), "spec.attacher", "FieldValueInvalid"),
            refused("/spec/nodeName", json!(""), "spec.nodeName", "FieldValueInvalid"),
            refused("/spec/source", json!({}), "spec.source", "FieldValueRequired"),
            refused("/spec/source", both, "spec.source", "FieldValueForbidden"),
            refused(
                "/spec/source/persistentVolumeName",
                json!(""),
                "spec.source.persistentVolumeName",
                "FieldValueRequired",
            ),
            refused(
                "/status",
                json!({"attachError": {"message": "x".repeat(1025)}}),
                "status.attachError.message",
                "FieldValueTooLong",
            ),
            refused(
                "/status",
                json!({"detachError": {"errorCode": -1}}),
                "status.detachError.errorCode",
                "FieldValueInvalid",
            ),
        ],
        valid: vec![valid],
        updates: vec![json!({"metadata": {"labels": {"a": "b"}}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"nodeName": "node-2"}}),
            "spec",
            "FieldValueInvalid",
        )],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn source_of_an_inline_volume_gets_its_defaults() {
        let mut object = json!({"spec": {"source": {"inlineVolumeSpec": {"hostPath": {"path": "/a"}}}}});
        VolumeAttachment.set_defaults(&mut object);
        let source = &object["spec"]["source"]["inlineVolumeSpec"];
        assert_eq!(*source, json!({"hostPath": {"path": "/a", "type": ""}}));
    }
}
