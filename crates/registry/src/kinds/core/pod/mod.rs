//! Pod: containers that share a node, a network and volumes.
//!
//! The rules that pods share with pod templates are in [`super::pod_spec`]; here are those of pods only. Subresources
//! other than the status have functions of their own, which the life cycle of those subresources calls.

mod binding;
mod container_choice;
mod defaults;
mod ephemeral_containers;
pub mod eviction;
mod label_keys;
mod profile;
#[cfg(test)]
mod random;
pub mod references;
mod resize;
mod sameness;
#[cfg(any(test, feature = "samples"))]
mod samples;
mod status;
mod table;
mod update;

use std::borrow::Cow;
use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::table::TableRowCondition;
use coracle_meta::time::Time;
use serde_json::{Value, json};

pub use binding::{BindError, bind, validate_binding};
pub use container_choice::{ContainerChoiceError, choose_container};
pub use coracle_api::usage::qos_class;
pub use ephemeral_containers::{prepare_ephemeral_containers, validate_ephemeral_containers};
pub use resize::{prepare_resize, validate_resize};

use super::pod_spec::defaults::within;
use super::pod_spec::{self, annotation, container};
use crate::kind::{Column, Declaration, Generation, Kind, Scope, StatusMetadata, Subresource, Verbs, texts};
use crate::view;

/// [`Kind`] of Pod objects.
pub struct Pod;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    short_names: texts(&["po"]),
    categories: texts(&["all"]),
    subresources: subresources(),
    status_metadata: StatusMetadata::WrittenBut(&["ownerReferences"]),
    generation: Generation::Spec,
    deletion_returns_object: true,
    selectable_fields: texts(SELECTABLE_FIELDS),
    columns: columns(),
    storage_version_hash: "xPOwRZ+Yhw8=".into(),
    ..Declaration::new("", &["v1"], "Pod", "pods", "pod", Scope::Namespaced)
});

/// Supported field selectors. Old clients call the node's name `spec.host`.
const SELECTABLE_FIELDS: &[&str] = &[
    "spec.host",
    "spec.hostNetwork",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.nominatedNodeName",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];

fn subresources() -> Vec<Subresource> {
    let connect = Verbs::CREATE.with(Verbs::GET);
    let proxy = connect.with(Verbs::DELETE).with(Verbs::PATCH).with(Verbs::UPDATE);
    vec![
        Subresource::new("attach", "PodAttachOptions", connect),
        Subresource::new("binding", "Binding", Verbs::CREATE),
        Subresource::new("ephemeralcontainers", "Pod", Verbs::STATUS),
        Subresource {
            group_version: Some(("policy".into(), "v1".into())),
            ..Subresource::new("eviction", "Eviction", Verbs::CREATE)
        },
        Subresource::new("exec", "PodExecOptions", connect),
        Subresource::new("log", "Pod", Verbs::GET),
        Subresource::new("portforward", "PodPortForwardOptions", connect),
        Subresource::new("proxy", "PodProxyOptions", proxy),
        Subresource::new("resize", "Pod", Verbs::STATUS),
        Subresource::status("Pod"),
    ]
}

fn columns() -> Vec<Column> {
    vec![
        Column::name(),
        Column::text("Ready", "ready containers and all containers"),
        Column::text("Status", "aggregated status of the pod's containers"),
        Column::text("Restarts", "number of container restarts, and time since the last one"),
        Column::age(),
        Column::text("IP", "first IP address of the pod").wide(),
        Column::text("Node", "node that the pod is bound to").wide(),
        Column::text("Nominated Node", "node where other pods are preempted for the pod").wide(),
        Column::text("Readiness Gates", "fulfilled readiness gates and all readiness gates").wide(),
    ]
}

impl Kind for Pod {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        defaults::set(object);
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        let mut status = json!({"phase": "Pending", "qosClass": qos_class(object)});
        if !view::items(object, &["spec", "schedulingGates"]).is_empty() {
            status["conditions"] = json!([status::gated_condition(object)]);
        }
        if let Value::Object(fields) = object {
            fields.insert("status".to_owned(), status);
        }
        within(object, "spec", pod_spec::drop_disabled_fields);
        label_keys::merge(object);
        profile::copy_annotations_to_fields(object);
    }

    fn warnings_before_create(&self, object: &Value) -> Vec<String> {
        profile::annotation_warnings(object)
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value) {
        within(new, "spec", pod_spec::drop_disabled_fields);
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _now: Time) {
        status::prepare(new, old);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        validate_any(object, errors);
    }

    fn validate_create(&self, object: &Value, errors: &mut ErrorList) {
        validate_new(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        update::validate(new, old, errors);
    }

    fn validate_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        status::validate(new, old, errors);
    }

    fn prepare_for_part_update(&self, part: &str, new: &mut Value, old: &Value, _now: Time) {
        match part {
            "ephemeralcontainers" => prepare_ephemeral_containers(new, old),
            "resize" => prepare_resize(new, old),
            _ => {}
        }
    }

    fn validate_part_update(&self, part: &str, new: &Value, old: &Value, errors: &mut ErrorList) {
        match part {
            "ephemeralcontainers" => validate_ephemeral_containers(new, old, errors),
            "resize" => validate_resize(new, old, errors),
            _ => {}
        }
    }

    /// Zero for a pod that is not bound or has terminated.
    fn deletion_grace_period_s(&self, pod: &Value, requested_s: Option<i64>) -> Option<i64> {
        let is_bound = !view::text(pod, &["spec", "nodeName"]).is_empty();
        if !is_bound || matches!(view::text(pod, &["status", "phase"]), "Succeeded" | "Failed") {
            return Some(0);
        }
        let own_s = view::integer(pod, &["spec", "terminationGracePeriodSeconds"]);
        Some(match requested_s.or(own_s).unwrap_or(0) {
            // Negative values were allowed once; they mean the shortest period that still notifies the node.
            ..0 => 1,
            seconds => seconds,
        })
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let messages = name::dns1123_label(view::name(new));
        let mut warnings = Vec::new();
        if !messages.is_empty() {
            let messages = messages.join(" ");
            warnings.push(format!("metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{messages}]"));
        }
        let (metadata, spec) = parts(new);
        warnings.extend(pod_spec::spec_warnings(spec, metadata, &Path::NIL));
        warnings
    }

    fn status_warnings(&self, new: &Value) -> Vec<String> {
        status::warnings(new)
    }

    fn selectable_value<'a>(&self, object: &'a Value, field: &str) -> Cow<'a, str> {
        match field {
            "spec.host" => Cow::Borrowed(view::text(object, &["spec", "nodeName"])),
            "spec.hostNetwork" => {
                Cow::Borrowed(if view::is_true(object, &["spec", "hostNetwork"]) { "true" } else { "false" })
            }
            "status.podIP" => {
                let first = view::items(object, &["status", "podIPs"]).first();
                Cow::Borrowed(first.map_or("", |address| view::text(address, &["ip"])))
            }
            // kube-apiserver accepts it in selectors but has no value for it.
            "status.podIPs" => Cow::Borrowed(""),
            _ => {
                let (part, name) = field.split_once('.').unwrap_or((field, ""));
                Cow::Borrowed(view::text(object, &[part, name]))
            }
        }
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        table::cells(object, now)
    }

    fn row_conditions(&self, object: &Value) -> Vec<TableRowCondition> {
        let message = match view::text(object, &["status", "phase"]) {
            "Succeeded" => "The pod has completed successfully.",
            "Failed" => "The pod failed.",
            _ => return Vec::new(),
        };
        vec![TableRowCondition::completed(view::text(object, &["status", "phase"]), message)]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples::samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        let valid = &self.samples().valid[0];
        let cost = json!({"controller.kubernetes.io/pod-deletion-cost": "much"});
        let mut stored = vec![crate::samples::Stored::of(valid, &json!({"metadata": {"annotations": cost}}))];
        let templates = pod_spec::stored_templates();
        stored.extend(templates.iter().map(|template| crate::samples::Stored::of(valid, template)));
        stored
    }

    #[cfg(any(test, feature = "samples"))]
    fn warned_samples(&self) -> Vec<crate::samples::Warned> {
        let object = json!({
            "status": {"podIPs": [{"ip": "010.0.0.1"}], "hostIPs": [{"ip": "2001:DB8::1"}]},
        });
        let expected = [
            "status.podIPs[0].ip: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\"",
            "status.hostIPs[0].ip: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")",
        ];
        vec![crate::samples::Warned::status(object, &expected)]
    }
}

/// Carries over the metadata that a write to a subresource of a pod may not change.
fn keep_metadata(new: &mut Value, old: &Value) {
    let old = parts(old).0;
    let Some(Value::Object(metadata)) = new.get_mut("metadata") else { return };
    for field in ["deletionTimestamp", "generation", "labels", "annotations", "finalizers", "ownerReferences"]
    {
        match old.get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
}

/// Metadata and spec of a pod.
fn parts(pod: &Value) -> (&Value, &Value) {
    (pod.get("metadata").unwrap_or(&Value::Null), pod.get("spec").unwrap_or(&Value::Null))
}

/// Validates what applies to both new and updated pods.
fn validate_any(pod: &Value, errors: &mut ErrorList) {
    let (metadata, spec) = parts(pod);
    let path = Path::root("spec");
    annotation::validate(metadata, spec, &Path::root("metadata.annotations"), errors);
    pod_spec::validate_spec(spec, metadata, &path, errors);
    if view::text(spec, &["serviceAccountName"]).is_empty() {
        forbid_tokens(spec, &path.child("volumes"), errors);
    }
    for list in ["containers", "initContainers"] {
        let list_path = path.child(list);
        for (index, found) in view::items(spec, &[list]).iter().enumerate() {
            container::untrimmed_image(found, &list_path.index(index), errors);
        }
    }
}

/// Rejects projected service account tokens in a pod without a service account.
fn forbid_tokens(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (index, volume) in view::items(spec, &["volumes"]).iter().enumerate() {
        let volume_path = path.index(index);
        let sources = volume_path.child("projected.sources");
        for (index, source) in view::items(volume, &["projected", "sources"]).iter().enumerate() {
            if source.get("serviceAccountToken").is_some() {
                let message = "must not be specified when serviceAccountName is not set";
                errors
                    .push(FieldError::forbidden(&sources.index(index).child("serviceAccountToken"), message));
            }
        }
    }
}

/// Validates what applies to new pods only.
fn validate_new(pod: &Value, errors: &mut ErrorList) {
    let (metadata, spec) = parts(pod);
    let path = Path::root("spec");
    if !view::items(spec, &["ephemeralContainers"]).is_empty() {
        errors.push(FieldError::forbidden(&path.child("ephemeralContainers"), "cannot be set on create"));
    }
    let is_gated = !view::items(spec, &["schedulingGates"]).is_empty();
    if is_gated && !view::text(spec, &["nodeName"]).is_empty() {
        let message = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(&path.child("nodeName"), message));
    }
    annotation::match_fields(metadata, spec, &path, errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::errors_on_create;

    #[test]
    fn new_pod_is_pending() {
        let mut pod = json!({"spec": {"schedulingGates": [{"name": "a"}], "containers": [
            {"name": "a", "image": "b", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
        ]}});
        Pod.set_defaults(&mut pod);
        Pod.prepare_for_create(&mut pod, Time(0));
        assert_eq!(view::text(&pod, &["status", "phase"]), "Pending");
        assert_eq!(view::text(&pod, &["status", "qosClass"]), "Guaranteed");
        assert_eq!(view::text(&pod["status"]["conditions"][0], &["reason"]), "SchedulingGated");
        assert!(errors_on_create(&Pod, &pod).is_empty());
    }

    #[test]
    fn selectable_fields_have_values() {
        let pod = json!({
            "spec": {"nodeName": "n", "hostNetwork": true, "schedulerName": "s"},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]}
        });
        for (field, value) in [
            ("spec.host", "n"),
            ("spec.nodeName", "n"),
            ("spec.hostNetwork", "true"),
            ("spec.schedulerName", "s"),
            ("spec.restartPolicy", ""),
            ("status.phase", "Running"),
            ("status.podIP", "10.0.0.1"),
        ] {
            assert_eq!(Pod.selectable_value(&pod, field), value, "{field}");
        }
    }

    #[test]
    fn deletion_grace_period_comes_from_request_or_pod() {
        let pod = json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}});
        assert_eq!(Pod.deletion_grace_period_s(&pod, None), Some(30));
        assert_eq!(Pod.deletion_grace_period_s(&pod, Some(5)), Some(5));
        assert_eq!(Pod.deletion_grace_period_s(&pod, Some(-5)), Some(1));
        let unbound = json!({"spec": {"terminationGracePeriodSeconds": 30}});
        assert_eq!(Pod.deletion_grace_period_s(&unbound, None), Some(0));
    }
}
