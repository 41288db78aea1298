//! Restrictions on a node's writes to its own Node object: it must not attract workloads.

use std::collections::BTreeSet;

use coracle_registry::admission::Operation;
use coracle_registry::{Result, view};
use serde_json::Value;

use super::Request;

/// The namespace of labels that only administrators may set.
const RESTRICTED_NAMESPACE: &str = "node-restriction.kubernetes.io";

/// Namespaces of labels that belong to Kubernetes.
const KUBERNETES_NAMESPACES: [&str; 2] = ["kubernetes.io", "k8s.io"];

/// Label namespaces of Kubernetes that a kubelet may set (`kubelet/pkg/apis/well_known_labels.go`).
const KUBELET_NAMESPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

pub(super) fn judge(request: &Request<'_>) -> Result<()> {
    let (node, name) = (request.node, request.name());
    if name != node {
        return request.refuse(format!("node {node:?} is not allowed to modify node {name:?}"));
    }
    match request.operation() {
        Operation::Create => judge_new(request),
        Operation::Update => judge_change(request),
        Operation::Delete | Operation::Connect => Ok(()),
    }
}

fn judge_new(request: &Request<'_>) -> Result<()> {
    let node = request.node;
    if config_source(request.object).is_some() {
        return request
            .refuse(format!("node {node:?} is not allowed to create pods with a non-nil configSource"));
    }
    match forbidden_labels(request.object, &Value::Null) {
        labels if labels.is_empty() => Ok(()),
        labels => {
            request.refuse(format!("node {node:?} is not allowed to set the following labels: {labels}"))
        }
    }
}

fn judge_change(request: &Request<'_>) -> Result<()> {
    let (node, new, old) = (request.node, request.object, request.old());
    // Old kubelets omit the field.
    if config_source(new).is_some() && config_source(new) != config_source(old) {
        return request.refuse(format!(
            "node {node:?} is not allowed to update configSource to a new non-nil configSource"
        ));
    }
    let differ = |path: &[&str]| view::items(new, path) != view::items(old, path);
    if differ(&["spec", "taints"]) {
        return request.refuse(format!("node {node:?} is not allowed to modify taints"));
    }
    if differ(&["metadata", "ownerReferences"]) {
        return request.refuse(format!("node {node:?} is not allowed to modify ownerReferences"));
    }
    match forbidden_labels(new, old) {
        labels if labels.is_empty() => Ok(()),
        labels => request.refuse(format!("is not allowed to modify labels: {labels}")),
    }
}

fn config_source(node: &Value) -> Option<&Value> {
    view::at(node, &["spec", "configSource"])
}

/// The changed labels that a node must not change.
fn forbidden_labels(new: &Value, old: &Value) -> String {
    let labels = |node| view::fields(node, &["metadata", "labels"]);
    let label = |node, key: &str| view::at(node, &["metadata", "labels", key]);
    let keys: BTreeSet<&str> = labels(new).chain(labels(old)).map(|(key, _)| key.as_str()).collect();
    let changed = keys.into_iter().filter(|key| label(new, key) != label(old, key));
    changed.filter(|key| is_forbidden(key)).collect::<Vec<_>>().join(", ")
}

fn is_forbidden(label: &str) -> bool {
    let namespace = label.split_once('/').map_or("", |(namespace, _)| namespace);
    let within = |outer: &&str| {
        namespace.strip_suffix(*outer).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_kubelets = KUBELET_LABELS.contains(&label) || KUBELET_NAMESPACES.iter().any(within);
    within(&RESTRICTED_NAMESPACE) || KUBERNETES_NAMESPACES.iter().any(within) && !is_kubelets
}
