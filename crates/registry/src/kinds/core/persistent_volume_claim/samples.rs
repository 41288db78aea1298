//! Sample claims.

use serde_json::{Value, json};

use crate::samples::{Refused, Samples};

fn with(extra: Value) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    if let (Value::Object(fields), Value::Object(extra)) = (&mut spec, extra) {
        fields.extend(extra);
    }
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "sample", "namespace": "default"}, "spec": spec})
}

pub(super) fn samples() -> Samples {
    let (required, forbidden) = ("FieldValueRequired", "FieldValueForbidden");
    Samples {
        valid: vec![
            with(
                json!({"selector": {"matchLabels": {"a": "b"}}, "volumeAttributesClassName": "gold", "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}}),
            ),
            with(json!({"storageClassName": "", "volumeMode": "Block"})),
        ],
        invalid: invalid(),
        updates: vec![
            json!({"spec": {"volumeName": "v"}}),
            json!({"spec": {"storageClassName": "fast"}}),
            json!({"metadata": {"labels": {"a": "b"}}}),
        ],
        invalid_updates: vec![
            Refused::new(json!({"spec": {"accessModes": ["ReadOnlyMany"]}}), "spec", forbidden),
            Refused::new(json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}), "spec", forbidden),
            Refused::new(json!({"spec": {"volumeMode": "Block"}}), "volumeMode", "FieldValueInvalid"),
            Refused::new(json!({"spec": {"accessModes": []}}), "spec.accessModes", required),
        ],
    }
}

fn invalid() -> Vec<Refused> {
    let (invalid, required, unsupported) =
        ("FieldValueInvalid", "FieldValueRequired", "FieldValueNotSupported");
    let sources =
        |source: Value, reference: Value| with(json!({"dataSource": source, "dataSourceRef": reference}));
    let claim = json!({"kind": "PersistentVolumeClaim", "name": "a"});
    vec![
        Refused::new(with(json!({"accessModes": []})), "spec.accessModes", required),
        Refused::new(with(json!({"accessModes": ["Some"]})), "spec.accessModes", unsupported),
        Refused::new(with(json!({"resources": {}})), "spec.resources[storage]", required),
        Refused::new(
            with(json!({"resources": {"requests": {"storage": "0"}}})),
            "spec.resources[storage]",
            invalid,
        ),
        Refused::new(
            with(json!({"selector": {"matchLabels": {"a b": ""}}})),
            "spec.selector.matchLabels",
            invalid,
        ),
        Refused::new(with(json!({"storageClassName": "A"})), "spec.storageClassName", invalid),
        Refused::new(with(json!({"volumeMode": "Some"})), "spec.volumeMode", unsupported),
        Refused::new(
            with(json!({"dataSourceRef": {"kind": "Thing", "name": "a"}})),
            "spec.dataSourceRef",
            invalid,
        ),
        Refused::new(
            with(json!({"dataSourceRef": {"apiGroup": "example.com", "kind": "Thing"}})),
            "spec.dataSourceRef.name",
            required,
        ),
        Refused::new(sources(claim, json!({"kind": "PersistentVolumeClaim", "name": "b"})), "spec", invalid),
    ]
}
