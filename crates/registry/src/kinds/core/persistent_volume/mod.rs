//! PersistentVolume: storage that outlives the pods that use it.

mod secrets;
mod source;

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::time::Time;
use serde_json::{Value, json};

pub use secrets::node_secrets;

use super::pod_spec::validate_node_selector;
use super::{resource_list, rules, volume_access};
use crate::kind::{Column, Declaration, Kind, Scope, Subresource, texts};
use crate::kinds::rules::{check_again, deprecated_node_label};
use crate::{internal_types, view};

const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// Volume sources that do not support the mount options annotation.
const WITHOUT_MOUNT_OPTIONS: &[&str] =
    &["hostPath", "flocker", "fc", "flexVolume", "portworxVolume", "scaleIO", "local", "storageos", "csi"];

/// Volume sources that no longer work, with the versions for the warning.
const NON_FUNCTIONAL_SOURCES: &[(&str, &str)] = &[
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Deprecated node labels and their replacements; node affinity may be updated from the former to the latter.
const RENAMED_LABELS: &[(&str, &str)] = &[
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// [`Kind`] of PersistentVolume objects.
pub struct PersistentVolume;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    checks_metadata_change_again: false,
    metadata_checks: 2,
    short_names: texts(&["pv"]),
    subresources: vec![Subresource::status("PersistentVolume")],
    deletion_returns_object: true,
    columns: vec![
        Column::name(),
        Column::text("Capacity", "capacity of the volume"),
        Column::text("Access Modes", "access modes of the volume"),
        Column::text("Reclaim Policy", "policy for the volume after its claim is deleted"),
        Column::text("Status", "phase of the volume"),
        Column::text("Claim", "namespace and name of the bound claim"),
        Column::text("StorageClass", "storage class"),
        Column::text("VolumeAttributesClass", "volume attributes class"),
        Column::text("Reason", "reason of the status"),
        Column::age(),
        Column::text("VolumeMode", "volume mode: Filesystem or Block").wide(),
    ],
    storage_version_hash: "HN/zwEC+JgM=".into(),
    ..Declaration::new(
        "",
        &["v1"],
        "PersistentVolume",
        "persistentvolumes",
        "persistentvolume",
        Scope::Cluster,
    )
});

impl Kind for PersistentVolume {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        if view::text(object, &["status", "phase"]).is_empty() {
            object["status"]["phase"] = "Pending".into();
        }
        let Some(spec) = object.get_mut("spec") else { return };
        if view::text(spec, &["persistentVolumeReclaimPolicy"]).is_empty() {
            spec["persistentVolumeReclaimPolicy"] = "Retain".into();
        }
        view::set_default(spec, "volumeMode", || "Filesystem".into());
        set_source_defaults(spec);
    }

    fn prepare_for_create(&self, object: &mut Value, now: Time) {
        object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now.to_string()});
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, now: Time) {
        let field = "lastPhaseTransitionTime";
        let phase = |object: &Value| view::text(object, &["status", "phase"]).to_owned();
        let time = |object: &Value| view::at(object, &["status", field]).cloned();
        if phase(new) != phase(old) {
            // A client that changes the phase may also set the time of the change.
            if time(new).is_none() || time(new) == time(old) {
                new["status"][field] = now.to_string().into();
            }
        } else if let (None, Some(time)) = (time(new), time(old)) {
            new["status"][field] = time;
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_spec(object, errors);
        check_mount_options(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_again(new, old, errors, check_spec);
        let nothing = Value::Null;
        let (new, old) = (new.get("spec").unwrap_or(&nothing), old.get("spec").unwrap_or(&nothing));
        source::check_unchanged(new, old, errors);
        rules::immutable(
            "*s",
            new.get("volumeMode"),
            old.get("volumeMode"),
            &Path::root("volumeMode"),
            errors,
        );
        check_affinity_unchanged(new.get("nodeAffinity"), old.get("nodeAffinity"), errors);
        let class = "volumeAttributesClassName";
        if old.get(class).is_some() && new.get(class).is_none() {
            let detail = "update from non-nil value to nil is forbidden";
            let path = Path::root("spec.volumeAttributesClassName");
            errors.push(FieldError::forbidden(&path, detail));
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings(new)
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let capacity = resource_list::amount(object, &["spec", "capacity", "storage"]).unwrap_or_default();
        let claim = view::at(object, &["spec", "claimRef"])
            .map(|claim| format!("{}/{}", view::text(claim, &["namespace"]), view::text(claim, &["name"])));
        vec![
            view::name(object).into(),
            capacity.to_string().into(),
            volume_access::modes_cell(object, &["spec", "accessModes"]).into(),
            view::text(object, &["spec", "persistentVolumeReclaimPolicy"]).into(),
            volume_access::phase_cell(object).into(),
            claim.unwrap_or_default().into(),
            volume_access::class_cell(object).into(),
            volume_access::text_cell_or_unset(object, "volumeAttributesClassName").into(),
            view::text(object, &["status", "reason"]).into(),
            view::age(object, now),
            volume_access::text_cell_or_unset(object, "volumeMode").into(),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        let valid = &self.samples().valid[0];
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["no label"]}]}]});
        vec![crate::samples::Stored::of(valid, &json!({"spec": {"nodeAffinity": {"required": required}}}))]
    }
}

/// Sets defaults of the capacity and the source of a volume's spec, which may be inline in another object.
pub(crate) fn set_source_defaults(spec: &mut Value) {
    resource_list::set_defaults(spec.get_mut("capacity"));
    source::set_defaults(spec);
}

fn check_spec(object: &Value, errors: &mut ErrorList) {
    let path = Path::root("spec");
    let nothing = Value::Null;
    let spec = object.get("spec").unwrap_or(&nothing);
    volume_access::check_modes(spec, "", &path, errors);
    check_capacity(spec, &path.child("capacity"), errors);
    let policy = view::text(spec, &["persistentVolumeReclaimPolicy"]);
    let policy_path = path.child("persistentVolumeReclaimPolicy");
    rules::one_of(policy, &["Delete", "Recycle", "Retain"], &policy_path, errors);
    if let Some(affinity) = spec.get("nodeAffinity") {
        check_node_affinity(affinity, &path.child("nodeAffinity"), errors);
    }
    source::validate(spec, view::name(object), &path, errors);
    if policy == "Recycle" && is_root(view::text(spec, &["hostPath", "path"])) {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden(&policy_path, detail));
    }
    volume_access::check_class(spec, "storageClassName", &path, errors);
    volume_access::check_volume_mode(spec, &path, errors);
    check_attributes_class(spec, &path, errors);
}

fn check_capacity(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let count = view::fields(spec, &["capacity"]).count();
    if count == 0 {
        errors.push(FieldError::required(path, ""));
    }
    if count != 1 || view::at(spec, &["capacity", "storage"]).is_none() {
        let value = internal_types::printed("{q", spec.get("capacity"));
        errors.push(FieldError::not_supported(path, value, &["storage"]));
    }
    for (resource, amount) in resource_list::amounts(spec, &["capacity"]) {
        resource_list::check_basic(&amount, &path.key(resource), errors);
        resource_list::check_positive(&amount, &path.key(resource), errors);
    }
}

fn check_node_affinity(affinity: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match affinity.get("required") {
        Some(selector) => validate_node_selector(selector, &path.child("required"), errors),
        None => {
            let detail = "must specify required node constraints";
            errors.push(FieldError::required(&path.child("required"), detail));
        }
    }
}

/// Returns true if a path denotes the root directory, in any spelling.
fn is_root(path: &str) -> bool {
    path.starts_with('/') && path.split('/').all(|part| ["", ".", ".."].contains(&part))
}

fn check_attributes_class(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(class) = spec.get("volumeAttributesClassName").and_then(Value::as_str) else { return };
    let class_path = path.child("volumeAttributesClassName");
    if class.is_empty() {
        errors.push(FieldError::required(&class_path, "an empty string is disallowed"));
    } else {
        rules::text(class, name::dns1123_subdomain, &class_path, errors);
    }
    if spec.get("csi").is_none() {
        let detail = "has to be specified when using volumeAttributesClassName";
        errors.push(FieldError::required(&path.child("csi"), detail));
    }
}

fn check_mount_options(object: &Value, errors: &mut ErrorList) {
    let has = |kind: &str| view::at(object, &["spec", kind]).is_some();
    let mountable = source::SOURCES.iter().any(|kind| has(kind) && !WITHOUT_MOUNT_OPTIONS.contains(kind));
    if !mountable && view::at(object, &["metadata", "annotations", MOUNT_OPTIONS]).is_some() {
        let path = Path::root("metadata.annotations");
        let detail = "may not specify mount options for this volume type";
        errors.push(FieldError::forbidden(&path.child(MOUNT_OPTIONS), detail));
    }
}

/// Rejects changes of node affinity that is already set, except for replacing deprecated labels.
fn check_affinity_unchanged(new: Option<&Value>, old: Option<&Value>, errors: &mut ErrorList) {
    let Some(old) = old else { return };
    let mut renamed = old.clone();
    if let Some(new) = new {
        apply_renamed_labels(&mut renamed, new);
    }
    if new != Some(&renamed) {
        let value = internal_types::printed("*@core.VolumeNodeAffinity", new);
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.push(FieldError::invalid(&Path::root("nodeAffinity"), value, detail));
    }
}

fn apply_renamed_labels(old: &mut Value, new: &Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            if old.get("key").is_some_and(|key| is_renamed(key, new.get("key"))) {
                match new.get("key") {
                    Some(key) => old.insert("key".to_owned(), key.clone()),
                    None => old.remove("key"),
                };
            }
            for (field, old) in old {
                if let Some(new) = new.get(field) {
                    apply_renamed_labels(old, new);
                }
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            old.iter_mut().zip(new).for_each(|(old, new)| apply_renamed_labels(old, new));
        }
        _ => {}
    }
}

/// Whether `new` is the later name of a label. kube-apiserver takes the empty name for that of all labels without one.
fn is_renamed(old: &Value, new: Option<&Value>) -> bool {
    let later = RENAMED_LABELS.iter().find(|(from, _)| old == from).map_or("", |(_, to)| to);
    new.and_then(Value::as_str).unwrap_or_default() == later
}

fn warnings(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let mount_options = r#"deprecated since v1.31; use "mountOptions" attribute instead"#;
    for (key, message) in [
        (volume_access::CLASS_ANNOTATION, volume_access::CLASS_ANNOTATION_DEPRECATED),
        (MOUNT_OPTIONS, mount_options),
    ] {
        if view::at(object, &["metadata", "annotations", key]).is_some() {
            warnings.push(format!("metadata.annotations[{key}]: {message}"));
        }
    }
    if view::text(object, &["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
        warnings.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
    }
    let terms = view::items(object, &["spec", "nodeAffinity", "required", "nodeSelectorTerms"]);
    for (term_index, term) in terms.iter().enumerate() {
        for (index, expression) in view::items(term, &["matchExpressions"]).iter().enumerate() {
            let key = view::text(expression, &["key"]);
            if let Some(message) = deprecated_node_label(key) {
                warnings.push(format!(
                    "spec.nodeAffinity.required.nodeSelectorTerms[{term_index}].matchExpressions[{index}].key: {key} is {message}"
                ));
            }
        }
    }
    for (kind, message) in NON_FUNCTIONAL_SOURCES {
        if view::at(object, &["spec", kind]).is_some() {
            let kind = if *kind == "storageos" { "storageOS" } else { kind };
            warnings.push(format!("spec.{kind}: {message}"));
        }
    }
    warnings
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::samples::{Refused, Samples};

    let with = |extra: Value| {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "csi": {"driver": "csi.example.com", "volumeHandle": "h"}});
        if let (Value::Object(fields), Value::Object(extra)) = (&mut spec, extra) {
            fields.extend(extra);
            fields.retain(|_, value| !value.is_null());
        }
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "sample"}, "spec": spec})
    };
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "In", "values": ["linux"]}]}]}});
    let (invalid, required, forbidden) = ("FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden");
    let unsupported = "FieldValueNotSupported";
    Samples {
        valid: vec![
            with(
                json!({"storageClassName": "fast", "volumeAttributesClassName": "gold", "nodeAffinity": affinity, "claimRef": {"namespace": "default", "name": "c"}}),
            ),
            with(
                json!({"csi": null, "hostPath": {"path": "/data"}, "persistentVolumeReclaimPolicy": "Recycle"}),
            ),
            with(
                json!({"csi": null, "local": {"path": "/mnt"}, "nodeAffinity": affinity, "volumeMode": "Block"}),
            ),
            with(json!({"csi": null, "nfs": {"server": "s", "path": "/"}})),
        ],
        invalid: vec![
            Refused::new(with(json!({"accessModes": []})), "spec.accessModes", required),
            Refused::new(with(json!({"accessModes": ["Some"]})), "spec.accessModes", unsupported),
            Refused::new(
                with(json!({"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]})),
                "spec.accessModes",
                forbidden,
            ),
            Refused::new(with(json!({"capacity": null})), "spec.capacity", required),
            Refused::new(with(json!({"capacity": {"cpu": "1"}})), "spec.capacity", unsupported),
            Refused::new(with(json!({"capacity": {"storage": "0"}})), "spec.capacity[storage]", invalid),
            Refused::new(with(json!({"csi": null})), "spec", required),
            Refused::new(with(json!({"csi": {"driver": "d"}})), "spec.csi.volumeHandle", required),
            Refused::new(with(json!({"nfs": {"server": "s", "path": "/"}})), "spec.csi", forbidden),
            Refused::new(
                with(json!({"csi": null, "local": {"path": "/mnt"}})),
                "spec.nodeAffinity",
                required,
            ),
            Refused::new(
                with(
                    json!({"csi": null, "hostPath": {"path": "//."}, "persistentVolumeReclaimPolicy": "Recycle"}),
                ),
                "spec.persistentVolumeReclaimPolicy",
                forbidden,
            ),
            Refused::new(
                with(json!({"persistentVolumeReclaimPolicy": "Keep"})),
                "spec.persistentVolumeReclaimPolicy",
                unsupported,
            ),
            Refused::new(with(json!({"storageClassName": "A"})), "spec.storageClassName", invalid),
            Refused::new(with(json!({"volumeMode": "Some"})), "spec.volumeMode", unsupported),
            Refused::new(with(json!({"nodeAffinity": {}})), "spec.nodeAffinity.required", required),
            Refused::new(
                with(
                    json!({"csi": null, "nfs": {"server": "s", "path": "/"}, "volumeAttributesClassName": "gold"}),
                ),
                "spec.csi",
                required,
            ),
        ],
        updates: vec![
            json!({"spec": {"capacity": {"storage": "2Gi"}}}),
            json!({"spec": {"csi": {"controllerExpandSecretRef": {"name": "a", "namespace": "b"}}}}),
            json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}]}}}}),
        ],
        invalid_updates: vec![
            Refused::new(
                json!({"spec": {"csi": {"volumeHandle": "other"}}}),
                "spec.persistentvolumesource",
                forbidden,
            ),
            Refused::new(json!({"spec": {"volumeMode": "Block"}}), "volumeMode", invalid),
            Refused::new(json!({"spec": {"nodeAffinity": null}}), "nodeAffinity", invalid),
            Refused::new(
                json!({"spec": {"volumeAttributesClassName": null}}),
                "spec.volumeAttributesClassName",
                forbidden,
            ),
        ],
    }
}
